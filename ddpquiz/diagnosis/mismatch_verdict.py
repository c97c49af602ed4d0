"""The line of a script that only some ranks of a group reached: an extra call, which shifts all later ones."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from ddpquiz.diagnosis.ranks_at_fault import (
    Deviation,
    find_deviation,
    left_a_loop,
    opposite_branches,
    sides_of,
    singled_out,
    unusual_ranks,
)
from ddpquiz.diagnosis.verdict import (
    MESSAGES,
    NEXT,
    SIZES,
    TAGS,
    UNEVEN,
    Diagnosis,
    FaultKind,
    Standpoint,
    advise_pairs,
    call_at,
    request,
    request_at,
)
from ddpquiz.events.collective import Call, CallOrder, Collective
from ddpquiz.events.event import POINT_TO_POINT, Operation
from ddpquiz.events.formatting import format_place, format_ranks, format_shapes
from ddpquiz.events.mismatch import Mismatch

# The line of a script that only some ranks of a group reached: an extra call, which shifts all later ones.


def extra_call(
    collective: Collective, ranks: Collection[int], others: Collection[int], order: CallOrder
) -> Operation | None:
    """Return the first collective before this one in a line that some of `ranks` reached and none of `others`.

    Calls pair by their order, so such a call may have met another one of the others without an error, and the calls
    that do not match come later, in other lines. None if the others also reached a line of their own, or if the line
    stands in the opposite branch of one that they share: then both may belong together.
    """
    sites = order.sites(collective.group, collective.members)
    ours, theirs = {*ranks}, {*others}
    before = [
        (operation, {*callers}, {r for r, at in callers.items() if at < collective.index})
        for operation, callers in sites
    ]
    own = [operation for operation, callers, early in before if early & ours and not callers & theirs]
    if not own or any(early & theirs and not callers & ours for _, callers, early in before):
        return None
    if any(opposite_branches(own[0], operation) for operation, callers, _ in before if callers & theirs):
        return None
    return own[0]


# The verdict on an operation for which the calls of the ranks do not match.

MOST_SIDES = 6  # that a sentence lists


def of_mismatch(mismatch: Mismatch, collective: Collective, order: CallOrder) -> Diagnosis:
    """Return which ranks made the call that does not match, and both lines."""
    if {call.operation.op for call in collective.calls.values()} == {*POINT_TO_POINT}:
        return _of_pair(collective, order)
    calls = {rank: (call.operation, call.after) for rank, call in collective.calls.items()}
    found = find_deviation(calls, order)
    fault: FaultKind = "order" if mismatch.kind == "order" else found.fault
    if fault in ("missing", "signature") and not found.extra and (verdict := _of_extra_call(collective, found, order)):
        return verdict
    culprits = tuple(sorted(calls)) if found.guessed and fault != "missing" else found.ranks
    sides = sides_of({rank: operation for rank, (operation, _) in sorted(calls.items())})
    if fault == "signature" and len(sides) > 2:  # more than right and wrong
        sentence, standpoints = _all_sides(sides), tuple(standpoint((*ranks,), each) for each, ranks in sides.items())
    else:
        sentence = deviation_sentence(fault, found)
        standpoints = (standpoint(found.ranks, found.call), standpoint(found.others, found.expected))
    return Diagnosis(
        fault, culprits, sentence, standpoints, collective.group, collective.members, collective.index,
        together(found), _next(fault, found),
        (f"As many ranks are on both sides: {format_ranks(found.others)} may be wrong.",) if found.tied else (),
    )  # fmt: skip


def _of_extra_call(collective: Collective, found: Deviation, order: CallOrder) -> Diagnosis | None:
    """Return that a line which only one side reached has shifted the calls, if there is one."""
    callers, others = found.ranks, found.others
    extra = extra_call(collective, callers, others, order)
    if extra is None:
        callers, others = others, callers
        extra = extra_call(collective, callers, others, order)
    if extra is None or found.guessed:
        return None
    who, rest = format_ranks(callers), format_ranks(others)
    sentence = f"Only {who} called {call_at(extra)}; {rest} never did, so the calls after it do not match."
    if callers == found.others:
        sentence = (
            f"{rest.capitalize()} never called {call_at(extra)}, as {who} did, so the calls after it do not match."
        )
    return Diagnosis(
        "missing", found.ranks, sentence,
        (standpoint(found.ranks, found.call), standpoint(found.others, found.expected)),
        collective.group, collective.members, collective.index, together(found), NEXT["missing"],
    )  # fmt: skip


def _next(fault: FaultKind, found: Deviation) -> str:
    """Return what to do: where some ranks have left a loop in which others reduce gradients, their batches differ."""
    for inner, outer in ((found.call, found.expected), (found.expected, found.call)):
        is_own = {*found.ranks} <= singled_out(
            [inner, outer]
        )  # the script sends these ranks there, whatever their batches
        if inner.bucket is not None and outer.bucket is None and left_a_loop(inner, outer) and not is_own:
            return UNEVEN
    return advise_pairs((found.call.op, found.expected.op)) if found.call.op in POINT_TO_POINT else NEXT[fault]


def _of_pair(collective: Collective, order: CallOrder) -> Diagnosis:
    """Return that a send and its receive have different sizes or dtypes; the one that is new in its line is wrong."""
    calls = {rank: call.operation for rank, call in collective.calls.items()}
    changed = tuple(rank for rank, operation in calls.items() if order.usual_request(operation, 1))
    culprits = changed if len(changed) == 1 else tuple(sorted(calls))
    source, to = collective.members
    sent, received = calls[source], calls[to]
    sentence = f"Rank {source} sends {_sized(sent)}, but rank {to} receives {_sized(received)}."
    return Diagnosis(
        "signature", culprits, sentence, tuple(standpoint((rank,), each) for rank, each in sorted(calls.items())),
        collective.group, collective.members, collective.index, next=SIZES,
        limits=() if len(culprits) == 1 else ("Nothing in the record tells which of the two is right.",),
    )  # fmt: skip


def _sized(operation: Operation) -> str:
    place = f" at {format_place(operation.file, operation.line)}" if operation.line else ""
    return f"{format_shapes(operation.shapes)} {operation.dtype}{place}"


def _all_sides(sides: Mapping[Operation, Sequence[int]]) -> str:
    texts = [f"{format_ranks(ranks)}: {request_at(operation)}" for operation, ranks in sides.items()]
    more = f"; and {len(texts) - MOST_SIDES} more" if len(texts) > MOST_SIDES else ""
    return f"Ranks ask for different things in one call: {'; '.join(texts[:MOST_SIDES])}{more}."


def deviation_sentence(fault: FaultKind, found: Deviation) -> str:
    """Write which ranks deviate, and from which call of the others."""
    who, others = format_ranks(found.ranks).capitalize(), format_ranks(found.others)
    call, expected = call_at(found.call), call_at(found.expected)
    if fault == "missing" and found.extra and len(found.ranks) > len(found.others):
        return f"{who} went on to {call}, while {others} called {expected}."
    if fault == "missing" and found.extra:
        return f"Only {who.lower()} called {call}; {others} called {expected} instead."
    if fault == "missing":
        return f"{who} did not call {expected}, in which {wait(found.others)}, but went on to {call}."
    if fault == "order":
        return f"{who} called {call} where {others} called {expected}."
    return f"{who} called {request_at(found.call)}, but {others} called {request_at(found.expected)}."


def standpoint(ranks: tuple[int, ...], operation: Operation) -> Standpoint:
    """Return that ranks are in an operation."""
    return Standpoint(ranks, request(operation), operation.file, operation.line)


def wait(ranks: tuple[int, ...]) -> str:
    """Write `ranks 0 and 1 wait`."""
    return f"{format_ranks(ranks)} wait{'s' * (len(ranks) == 1)}"


def together(found: Deviation) -> str:
    """Write what all ranks had called before, if it was the same."""
    return f"Before that, all of them had called {call_at(found.before)}." if found.before else ""


# A message that does not arrive: its other half was never called, or was called with another tag.


def lost_message(waits: Mapping[int, Collective], order: CallOrder) -> Diagnosis | None:
    """Return why a message does not arrive; `waits` says in which operation each rank waits for others."""
    for rank, pair in waits.items():
        operation, peer = pair.calls[rank].operation, pair.awaited[0]
        if operation.op not in POINT_TO_POINT or peer not in waits:
            continue
        other = waits[peer].calls[peer].operation
        if other.op not in POINT_TO_POINT:
            return _of_other_half(rank, pair, peer, waits[peer].calls[peer], order)
        if other.peer == rank and {operation.op, other.op} == {*POINT_TO_POINT} and operation.tag != other.tag:
            return _of_tags({rank: operation, peer: other}, pair)
    return None


def _of_other_half(rank: int, pair: Collective, peer: int, instead: Call, order: CallOrder) -> Diagnosis:
    """Return that a rank waits in a send or receive, and its peer went on to a collective.

    The peer left out its half, unless this rank never made such a step before and the peer did.
    """
    call = pair.calls[rank]
    standpoints = (standpoint((rank,), call.operation), standpoint((peer,), instead.operation))
    is_usual = order.place_follows(call.operation, call.after) > 1
    if order.place_follows(instead.operation, instead.after) > 1 and not is_usual:
        sentence = f"Only rank {rank} called {call_at(call.operation)}; rank {peer}, which it waits for, is in "
        return Diagnosis(
            "missing", (rank,), f"{sentence}{call_at(instead.operation)}.", standpoints, pair.group, pair.members,
            pair.index, next=MESSAGES,
        )  # fmt: skip
    half = (
        "a message that rank {} did not send" if call.operation.op == "recv" else "a receive that rank {} did not call"
    )
    return Diagnosis(
        "missing", (peer,),
        f"Rank {rank} waits in {call_at(call.operation)} for {half.format(peer)}: rank {peer} went on to "
        f"{call_at(instead.operation)}.",
        standpoints, pair.group, pair.members, pair.index, next=MESSAGES,
        limits=() if is_usual else (f"Rank {rank} may also have called {call.operation.op} once too often.",),
    )  # fmt: skip


def _of_tags(calls: dict[int, Operation], pair: Collective) -> Diagnosis:
    sent, received = sorted(calls, key=lambda rank: calls[rank].op == "recv")
    sentence = (
        f"Rank {sent} sends with tag {_tag_at(calls[sent])}, but rank {received} receives with tag "
        f"{_tag_at(calls[received])}."
    )
    return Diagnosis(
        "signature", tuple(sorted(calls)), sentence,
        tuple(standpoint((rank,), each) for rank, each in sorted(calls.items())), pair.group, pair.members, pair.index,
        next=TAGS, limits=("Nothing in the record tells which of the two is right.",),
    )  # fmt: skip


def _tag_at(operation: Operation) -> str:
    return (
        f"{operation.tag} at {format_place(operation.file, operation.line)}" if operation.line else f"{operation.tag}"
    )


# The verdict on ranks that wait for each other, each in another operation.


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
