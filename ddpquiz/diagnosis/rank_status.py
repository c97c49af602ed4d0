"""What became of each rank: it finished, failed by itself or because of another rank, or still runs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ddpquiz.diagnosis.diagnosis import RankPosition
from ddpquiz.diagnosis.root_cause import (
    failures_in_order,
    has_timed_out,
    is_consequence,
    is_effect,
    is_interrupt,
    raised_before_hang,
    raised_words,
    was_told,
)
from ddpquiz.events.event import Exited, RankStack
from ddpquiz.events.formatting import format_place, format_ranks
from ddpquiz.events.run_state import RunState
from ddpquiz.events.source_text import own_frame

if TYPE_CHECKING:
    from ddpquiz.jobs.rank_process import Liveness

GRACE = 0.3  # seconds after the first failure in which the other ranks may still report; then they are stopped

_EARLIER = 5.0  # seconds; a rank that lives writes into its record each second, unless native code keeps it busy
_LATER = 1.0  # seconds; the clocks of two ranks of a record never differ by as much

_PLURAL = {
    "has": "have", "was": "were", "is": "are", "does": "do", "waits": "wait", "its record ends": "their records end",
    "its script": "their script",
}  # fmt: skip


GONE = "How it ended is not recorded: a kill, a crash in native code and os._exit() in the script all look like that."
_GONE_FIRST = f"{GONE} So does native code that keeps a rank busy until it is killed."


@dataclass(frozen=True, slots=True)
class RankStatus:
    """`kind` is "late" for a rank that still runs; `words` continue the sentence "rank 2 ...".

    `file` and `line` are where it stands or died, if that is known, and `then` goes on after that place. `limit` says
    what is not known. `seen` is True if a stack shows where it stands, `cut_short` if its process ended with status 0
    before its script did.
    """

    kind: Literal["late", "left", "dead", "absent"]
    words: str
    file: str = ""
    line: int = 0
    limit: str = ""
    absent: bool = False
    seen: bool = False
    then: str = ""
    cut_short: bool = False

    @property
    def plural_words(self) -> str:
        """What continues the sentence "they ..."; an error that is quoted stays as it is."""
        if self.words.startswith("raised "):
            return self.words
        words, tick, code = self.words.partition("`")
        return re.sub(rf"\b(?:{'|'.join(_PLURAL)})\b", lambda word: _PLURAL[word[0]], words) + tick + code

    def position(self, rank: int) -> RankPosition:
        return RankPosition((rank,), self.words + self.then, self.file, self.line)


def what_became_of(statuses: Mapping[int, RankStatus]) -> str:
    """What became of the ranks for which others wait; each place once."""
    ranks_with = defaultdict[RankStatus, list[int]](list)
    for rank, status in statuses.items():
        ranks_with[status].append(rank)
    parts = []
    for status, ranks in ranks_with.items():
        who = format_ranks(ranks) if len(ranks_with) > 1 else "it" if len(ranks) == 1 else "they"
        place = f" at {format_place(status.file, status.line)}" if status.line else ""
        parts.append(f"{who} {status.words if len(ranks) == 1 else status.plural_words}{place}{status.then}")
    return "; ".join(parts)


NO_RECORD = RankStatus(
    "absent", "left no record", absent=True,
    limit="Nothing of it was recorded: it died, it was busy and so noticed nothing, or its file was not collected.",
)  # fmt: skip

UNREAD = RankStatus(
    "absent", "left no readable dump", absent=True,
    limit="What it did is in a dump that cannot be read, so whether it is the cause is not known.",
)  # fmt: skip


def find_statuses(
    state: RunState, absent: Collection[int], stacks: Collection[RankStack], unended: Mapping[int, Liveness]
) -> dict[int, RankStatus]:
    """The status of each rank at the time when the first one failed, or now.

    `absent` are ranks of which nothing was recorded, with their status if they are a mapping, `stacks` those that
    ranks wrote, and `unended` the ranks whose record does not say how they ended.
    """
    first = min((time for _, time, _ in failures_in_order(state)), default=None)
    lost = any(
        is_consequence(raised.message) and not has_timed_out(raised) for raised in raised_before_hang(state).values()
    )
    silent = _silent_first(state, absent, first) if lost else None
    stack_of = {stack.rank: stack for stack in stacks}
    gone = _gone_first(state, unended)
    statuses = {}
    for rank in range(state.ranks):
        if rank in absent:
            statuses[rank] = absent[rank] if isinstance(absent, Mapping) else NO_RECORD
        elif rank == silent:
            file, line = state.places.get(rank, ("", 0))
            words = "is gone: its record ends there, and the others lost the connection"
            statuses[rank] = RankStatus("dead", words, file, line, limit=GONE)
        elif rank in gone:
            words = "is gone, and its record ends"
            statuses[rank] = RankStatus("dead", words, *state.places.get(rank, ("", 0)), limit=_GONE_FIRST)
        else:
            statuses[rank] = _status(rank, state, first, stack_of.get(rank))
    return statuses


def _gone_first(state: RunState, unended: Mapping[int, Liveness]) -> frozenset[int]:
    """The ranks that ended without a word while others went on: who ended with all others may have been stopped."""
    runs = "runs" in unended.values()
    latest = max(state.last_event_at.values(), default=0.0)
    return frozenset(
        rank for rank, now in unended.items()
        if now == "gone" and rank not in state.destroyed
        and (runs or latest - state.last_event_at.get(rank, 0.0) > _EARLIER)
    )  # fmt: skip


def ends_reached(state: RunState) -> frozenset[int]:
    """The ranks that came to the end of their script, or left it by sys.exit().

    Both a run and a record note the memory of a rank then; a record does not say more. os._exit() skips that.
    """
    recorded = {rank for rank in state.exited if (of_rank := state.timeline.training.get(rank)) and of_rank.memory}
    return frozenset(state.finished) | recorded


def _status(rank: int, state: RunState, first: float | None, stack: RankStack | None) -> RankStatus:
    raised, exited = raised_before_hang(state).get(rank), state.exited.get(rank)
    if raised and not is_effect(raised) and not was_told(raised, state):
        file, line = own_frame(raised.traceback, state.script)
        return RankStatus("dead", f"raised {raised_words(raised)}", file, line)
    if exited and not raised and exited.status == 0:
        if rank in ends_reached(state):
            return RankStatus("left", "has finished")
        place = state.places.get(rank, ("", 0))
        was_seen = ", and was last seen" if place[1] else ""
        words = f"ended with status 0 without reaching the end of its script{was_seen}"
        return RankStatus("left", words, *place, cut_short=True)
    in_time = exited is not None and (first is None or exited.time <= first + GRACE)
    if exited and not raised and not exited.stopped and in_time:
        return RankStatus("dead", _ended(exited), *state.places.get(rank, ("", 0)))
    if rank in state.finished and not raised:
        return RankStatus("left", "has finished")
    if (gone := state.destroyed.get(rank)) is not None:
        return RankStatus("left", "has destroyed its process groups", gone.file, gone.line)
    if stack and not stack.line:
        return RankStatus("late", "does not respond: it is stopped, or busy in native code", seen=True)
    file, line = (stack.file, stack.line) if stack else state.places.get(rank, ("", 0))
    if stands := standing_in(rank, state):
        expression, what_for = stands
        return RankStatus("late", f"waits in {expression}", file, line, seen=stack is not None, then=what_for)
    if raised and is_interrupt(raised) and not stack:  # its traceback shows where it stood then
        file, line = own_frame(raised.traceback, state.script)
        came = "an interrupt" if raised.error == "KeyboardInterrupt" else "SIGTERM"
        return RankStatus("late", f"had not reached this call when {came} came", file, line, seen=True)
    words = f"has not reached this call{' and was last seen' if line else ''}"
    return RankStatus("late", words, file, line, seen=stack is not None)


def standing_in(rank: int, state: RunState) -> tuple[str, str] | None:
    """The expression in which the main thread of a rank stands still outside of communication, and for what it waits.

    Both are parts of a sentence, between which the place stands; the second one may be empty.
    """
    stands = state.stands.get(rank)
    if stands is None or state.blocked_in(rank):
        return None
    return f"`{stands.stands_in}`", f" for {stands.waits_for}" if stands.waits_for else ""


def _silent_first(state: RunState, absent: Collection[int], failed: float | None) -> int | None:
    """The rank that ended without a word, before all others of that kind.

    Who wrote something after the first failure, or had left its groups before, did not cause it by its end: it may have
    been stopped by the launcher.
    """
    told = {*state.raised, *state.exited, *state.finished, *state.destroyed, *absent}
    quiet = {rank: state.last_event_at.get(rank, 0.0) for rank in range(state.ranks) if rank not in told}
    first = min(quiet, key=quiet.__getitem__, default=None)
    return None if first is None or (failed is not None and quiet[first] > failed + _LATER) else first


def _ended(exited: Exited) -> str:
    if exited.status < 0:
        return "was killed because memory ran out" if exited.memory else f"was killed by signal {-exited.status}"
    return f"exited with status {exited.status}"
