"""Ranks that do the same at a moment, put together: what a job of many ranks does in a few rows."""

from collections.abc import Collection
from dataclasses import dataclass

from ddpquiz.diagnosis.diagnosis import request
from ddpquiz.diagnosis.rank_status import ends_reached, standing_in
from ddpquiz.events.event import JOIN
from ddpquiz.events.run_state import RunState


@dataclass(frozen=True, slots=True)
class AlikeRanks:
    """Some ranks, what they do in words, the line where they do it if it is known, and how many calls they made."""

    ranks: tuple[int, ...]
    doing: str
    file: str
    line: int
    calls: tuple[int, int]  # the fewest and the most of these ranks


def alike_ranks(state: RunState, present: Collection[int], gone: Collection[int] = ()) -> list[AlikeRanks]:
    """Return groups of ranks that are in the same operation and line, the largest first.

    `present` are the ranks that have a record, `gone` those whose process is known to have ended.
    """
    groups: dict[tuple[str, str, int], list[int]] = {}
    for rank in state.all_ranks:
        groups.setdefault(_standing(state, rank, present, gone), []).append(rank)
    alike = []
    for (doing, file, line), ranks in groups.items():
        calls = [state.last_call[rank].number if rank in state.last_call else 0 for rank in ranks]
        alike.append(AlikeRanks(tuple(ranks), doing, file, line, (min(calls), max(calls))))
    return sorted(alike, key=lambda group: (-len(group.ranks), group.ranks))


def _standing(state: RunState, rank: int, present: Collection[int], gone: Collection[int]) -> tuple[str, str, int]:
    if rank not in present:
        return "no record yet", "", 0
    place = state.places.get(rank, ("", 0))
    if rank in state.raised:
        return f"raised {state.raised[rank].error}", *place
    if rank in state.exited:
        status = state.exited[rank].status
        has_finished = status == 0 and rank in ends_reached(state)  # os._exit(0) leaves the script in the middle
        return ("has finished", "", 0) if has_finished else (f"exited with status {status}", *place)
    if rank in gone:
        return "its process is gone", *place
    if state.communicates_in(rank) == JOIN:
        return JOIN, *place
    if state.blocked_in(rank) and rank in state.last_call:
        operation = state.last_call[rank].operation
        return request(operation), operation.file, operation.line
    if rank in state.finished:
        return "has come to the end of its script", "", 0
    stands = standing_in(rank, state)
    return f"waits in {stands[0]}" if stands else "computing", *place
