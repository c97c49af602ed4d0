"""The verdict on ranks that form groups: some ask for other groups than the rest, never ask, or come late."""

from collections.abc import Mapping

from ddpquiz.analysis.collective import Collective
from ddpquiz.analysis.events import Forming
from ddpquiz.analysis.formatting import format_place, format_ranks
from ddpquiz.analysis.mismatch_verdict import wait
from ddpquiz.analysis.rank_fates import Fate
from ddpquiz.analysis.run_state import RunState
from ddpquiz.analysis.verdict import NEXT, Diagnosis, FaultKind, Standpoint

MOST_SIDES = 4  # that a sentence lists
FORM_ALL = (
    "Every rank must call new_group for every group, in the same order, also for groups that it is not in. "
    "With use_local_synchronization=True, only the members call it."
)


def different_groups(state: RunState, blocked: Mapping[int, Collective]) -> Diagnosis | None:
    """Return which ranks made other calls of new_group than the rest, if ranks are stuck."""
    if not state.groups.inside and not blocked:
        return None
    if verdict := unlike_groups(state):
        return verdict
    for calls in state.groups.open.values():
        callers = {rank: each for rank, each in calls.items() if rank in state.groups.inside}
        others = {rank: each for rank, each in blocked.items() if rank not in calls}
        if callers and others:
            return _of_some(callers, others)
    return None


def unlike_groups(state: RunState) -> Diagnosis | None:
    """Return which ranks asked for other groups than the rest, also if that did no harm."""
    groups = state.groups.open
    numbers = (number for number, calls in groups.items() if len({each.members for each in calls.values()}) > 1)
    first = min(numbers, default=None)
    return None if first is None else _of_different(first, groups)


def late_in_forming(state: RunState, fates: Mapping[int, Fate]) -> Diagnosis | None:
    """Return for which member the others wait in new_group."""
    for calls in state.groups.open.values():
        waiting = {rank: each for rank, each in calls.items() if rank in state.groups.inside}
        missing = {member for each in waiting.values() for member in each.members if member not in calls}
        for kind in ("dead", "left", "late"):
            culprits = tuple(sorted(rank for rank in missing if fates[rank].kind == kind))
            if culprits:
                return _of_late(kind, culprits, waiting, fates)
    return None


def _of_different(number: int, of_all: Mapping[int, Mapping[int, Forming]]) -> Diagnosis:
    """Return that the k-th calls ask for different groups.

    Ranks whose call is the next one of others have left one out; otherwise the majority decides.
    """
    calls, following = of_all[number], of_all.get(number + 1, {})
    sides: dict[tuple[int, ...], list[int]] = {}
    for rank, call in sorted(calls.items()):
        sides.setdefault(call.members, []).append(rank)
    early = [rank for rank, call in calls.items()
             if any(each.members == call.members and calls[other].members != call.members
                    for other, each in following.items() if other in calls)]  # fmt: skip
    most = max(map(len, sides.values()))
    few = [rank for ranks in sides.values() for rank in ranks if len(ranks) < most]
    same_line = len({(each.file, each.line) for each in calls.values()}) == 1
    fault: FaultKind = "missing" if early else "signature" if same_line else "order"
    texts = [f"{format_ranks(ranks)} called {_call(calls[ranks[0]])}" for ranks in sides.values()]
    more = f"; and {len(texts) - MOST_SIDES} more" if len(texts) > MOST_SIDES else ""
    sentence = f"{_capitalized(texts[0])}, but {'; '.join(texts[1:MOST_SIDES])}{more}."
    if early and len(sides) == 2:
        left_out = next(calls[rank] for rank in calls if rank not in early)
        sentence = f"{_capitalized(format_ranks(early))} did not call {_call(left_out)}, but {_call(calls[early[0]])}."
    standpoints = tuple(_standpoint(tuple(ranks), calls[ranks[0]]) for ranks in sides.values())
    return Diagnosis(fault, tuple(sorted(early or few or calls)), sentence, standpoints, index=number, next=FORM_ALL)


def _of_some(callers: Mapping[int, Forming], others: Mapping[int, Collective]) -> Diagnosis:
    """Return that some ranks wait in new_group while others wait in an operation, and so never call it."""
    these, rest = tuple(sorted(callers)), tuple(sorted(others))
    few, first = len(these) < len(rest), callers[these[0]]
    at = others[rest[0]].calls[rest[0]].operation
    sentence = f"{'only ' * few}{format_ranks(these)} called {_call(first)}; {format_ranks(rest)} went on to {at.op}"
    standpoints = (_standpoint(these, first), Standpoint(rest, at.op, at.file, at.line))
    return Diagnosis(
        "missing", these if few else rest, f"{_capitalized(sentence)} at {format_place(at.file, at.line)}.",
        standpoints, next=FORM_ALL,
    )  # fmt: skip


def _of_late(
    kind: FaultKind, culprits: tuple[int, ...], waiting: Mapping[int, Forming], fates: Mapping[int, Fate]
) -> Diagnosis:
    callers, fate = tuple(sorted(waiting)), fates[culprits[0]]
    first = waiting[callers[0]]
    place = f" at {format_place(fate.file, fate.line)}" if fate.line else ""
    what = f": it {fate.words}{place}." if len(culprits) == 1 else "."
    sentence = f"{_capitalized(wait(callers))} in new_group at {format_place(first.file, first.line)} for "
    standpoints = [_standpoint(callers, first)]
    standpoints += [Standpoint((rank,), fates[rank].words, fates[rank].file, fates[rank].line) for rank in culprits]
    return Diagnosis(kind, culprits, sentence + format_ranks(culprits) + what, tuple(standpoints), next=NEXT[kind])


def _call(event: Forming) -> str:
    return f"{_request(event)} at {format_place(event.file, event.line)}"


def _request(event: Forming) -> str:
    return f"new_group for {format_ranks(event.members)}"


def _standpoint(ranks: tuple[int, ...], event: Forming) -> Standpoint:
    return Standpoint(ranks, _request(event), event.file, event.line)


def _capitalized(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]
