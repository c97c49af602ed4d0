"""The verdict on an operation for which the calls of the ranks do not match."""

from collections.abc import Mapping, Sequence

from ddpquiz.analysis.call_order import CallOrder
from ddpquiz.analysis.call_text import call_at, request, request_at
from ddpquiz.analysis.collective import Collective
from ddpquiz.analysis.extra_call import extra_call
from ddpquiz.analysis.formatting import format_place, format_ranks, format_shapes
from ddpquiz.analysis.mismatch import Mismatch
from ddpquiz.analysis.operation import POINT_TO_POINT, Operation
from ddpquiz.analysis.ranks_at_fault import Deviation, find_deviation, left_a_loop, sides_of, singled_out
from ddpquiz.analysis.verdict import NEXT, SIZES, UNEVEN, Diagnosis, FaultKind, Standpoint, advise_pairs

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
