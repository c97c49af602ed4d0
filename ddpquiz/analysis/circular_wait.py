"""The verdict on ranks that wait for each other, each in another operation."""

from collections import Counter
from collections.abc import Mapping

from ddpquiz.analysis.call_order import CallOrder
from ddpquiz.analysis.call_text import call_at
from ddpquiz.analysis.collective import Collective
from ddpquiz.analysis.lost_message import lost_message
from ddpquiz.analysis.mismatch_verdict import deviation_sentence, standpoint, together
from ddpquiz.analysis.operation import POINT_TO_POINT
from ddpquiz.analysis.ranks_at_fault import find_deviation, unusual_ranks
from ddpquiz.analysis.verdict import NEXT, Diagnosis, FaultKind, advise_pairs


def circular_wait(waits: Mapping[int, Collective], order: CallOrder) -> Diagnosis:
    """Return who is at fault; `waits` says in which operation each rank waits for others that wait themselves."""
    return lost_message(waits, order) or _of_cycle(waits, order)


def _of_cycle(waits: Mapping[int, Collective], order: CallOrder) -> Diagnosis:
    """Return which ranks left the common order, or the circle itself where none did."""
    rank = min(waits, key=lambda each: waits[each].calls[each].issued)
    cycle = [rank]
    while (following := next((other for other in waits[cycle[-1]].awaited if other in waits), None)) is not None:
        if following in cycle:
            cycle = cycle[cycle.index(following) :]
            break
        cycle.append(following)
    calls = {each: (waits[each].calls[each].operation, waits[each].calls[each].after) for each in waits}
    operations = [calls[each][0] for each in cycle]
    in_pairs = all(each.op in POINT_TO_POINT for each in operations)
    first = waits[cycle[0]]
    if not in_pairs and len({operation for operation, _ in calls.values()}) > 1:
        odd = unusual_ranks(calls, order)
        near = {each: calls[each] for each in calls if each in odd or odd.intersection(waits[each].awaited)}
        if len({operation for operation, _ in near.values()}) > 1:  # the others are where they should be
            calls = near
        found = find_deviation(calls, order)
        fault: FaultKind = "missing" if found.fault == "missing" and not found.extra else "order"
        both = (standpoint(found.ranks, found.call), standpoint(found.others, found.expected))
        return Diagnosis(
            fault, found.ranks, deviation_sentence(fault, found), both, first.group, first.members, first.index,
            together(found), NEXT[fault],
        )  # fmt: skip
    standpoints = tuple(standpoint((each,), calls[each][0]) for each in sorted(cycle))
    text = "; ".join(
        f"rank {each} {'for its' if calls[each][0].in_background else 'in'} {call_at(calls[each][0])}"
        for each in sorted(cycle)
    )
    places = Counter(operation.place for operation, _ in calls.values())
    advice = advise_pairs(
        {each.op for each in operations},
        in_background=all(each.in_background for each in operations),
        worked_before=all(order.calls_in(each.place) > places[each.place] for each in operations),
    )
    return Diagnosis(
        "order", tuple(sorted(cycle)), f"Ranks wait for each other: {text}.", standpoints, first.group, first.members,
        first.index, "", advice if in_pairs else NEXT["order"],
    )  # fmt: skip
