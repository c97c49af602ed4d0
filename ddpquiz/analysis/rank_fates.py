"""What became of each rank: it ran on, finished, died, or left nothing behind."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from ddpquiz.analysis.events import Exited, Raised, RankPosition
from ddpquiz.analysis.root_cause import CONSEQUENCE, GRACE
from ddpquiz.analysis.run_state import RunState
from ddpquiz.analysis.source_text import own_frame


@dataclass(frozen=True, slots=True)
class Fate:
    """`kind` is "late" for a rank that still runs; `words` continue the sentence "rank 2 ...".

    `file` and `line` are where it stands or died, if that is known; `limit` says what is not known. `seen` is True if a
    stack shows where it stands.
    """

    kind: Literal["late", "left", "dead"]
    words: str
    file: str = ""
    line: int = 0
    limit: str = ""
    absent: bool = False
    seen: bool = False


NO_FILE = Fate(
    "dead", "left no record", limit="Nothing of it was recorded: it died, or its file was not collected.", absent=True
)


def find_fates(state: RunState, absent: Collection[int], positions: Collection[RankPosition]) -> dict[int, Fate]:
    """Return the fate of each rank at the time when the first one failed, or now."""
    failures = [each.time for each in state.raised.values()]
    failures += [each.time for each in state.exited.values() if each.status and not each.stopped]
    first = min(failures, default=None)
    lost = any(_lost_connection(each) for each in state.raised.values())
    silent = _silent_first(state, absent) if lost else None
    standing = {each.rank: each for each in positions}
    fates = {}
    for rank in range(state.ranks):
        if rank in absent:
            fates[rank] = NO_FILE
        elif rank == silent:
            file, line = state.places.get(rank, ("", 0))
            fates[rank] = Fate("dead", "is gone: its record ends there, and the others lost the connection", file, line)
        else:
            fates[rank] = _fate(rank, state, first, standing.get(rank))
    return fates


def _fate(rank: int, state: RunState, first: float | None, position: RankPosition | None) -> Fate:
    raised, exited = state.raised.get(rank), state.exited.get(rank)
    if raised and not CONSEQUENCE.search(raised.message):
        file, line = own_frame(raised.traceback, state.script)
        return Fate("dead", f"raised {raised.error}: {_first_line(raised)}".rstrip(": "), file, line)
    if exited and not raised and exited.status == 0:
        return Fate("left", "has finished")
    in_time = exited is not None and (first is None or exited.time <= first + GRACE)
    if exited and not raised and not exited.stopped and in_time:
        return Fate("dead", _ended(exited), *state.places.get(rank, ("", 0)))
    if rank in state.finished and not raised:
        return Fate("left", "has finished")
    if position and position.line:
        return Fate("late", "is still running", position.file, position.line, seen=True)
    if position:
        return Fate("late", "does not respond: it is stopped, or busy in native code", seen=True)
    file, line = state.places.get(rank, ("", 0))
    return Fate("late", f"has not come there{' and was last seen' if line else ''}", file, line)


def _silent_first(state: RunState, absent: Collection[int]) -> int | None:
    """Return the rank that ended without a word, before all others of that kind."""
    quiet = [rank for rank in range(state.ranks) if rank not in {*state.raised, *state.exited, *absent}]
    heard = {rank: state.last_event_at.get(rank, 0.0) for rank in quiet}
    return min(heard, key=lambda rank: heard[rank]) if heard else None


def _lost_connection(raised: Raised) -> bool:
    return bool(CONSEQUENCE.search(raised.message)) and "imed out" not in raised.message


def _ended(exited: Exited) -> str:
    if exited.status < 0:
        return "was killed because memory ran out" if exited.memory else f"was ended by signal {-exited.status}"
    return f"exited with status {exited.status}"


def _first_line(raised: Raised) -> str:
    return raised.message.strip().partition("\n")[0]
