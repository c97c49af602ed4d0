"""What happened when on which rank, put together from events: pure, so it serves a live run and a saved one alike."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ddpquiz.analysis.collective import PAIRED, Call, Collective, What, sent
from ddpquiz.analysis.events import (
    Began,
    End,
    Ended,
    Event,
    Exited,
    Hung,
    Issued,
    Joining,
    Marked,
    Started,
    Waited,
    Waiting,
)
from ddpquiz.analysis.gradients import Gradients
from ddpquiz.analysis.matching import Matching
from ddpquiz.analysis.mismatch import MOST, Mismatch, Mismatches, missing
from ddpquiz.analysis.rank_timeline import RankTimeline, Span, Totals

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Call", "Collective", "Mismatch", "Span", "Timeline", "Totals"]

KEPT = 2000  # the last collectives, and spans of each rank, that are kept; sums are of all


def unread(file: str, line: int) -> str:
    """Read no line of any file."""
    del file, line
    return ""


@dataclass(slots=True)
class Cost:
    """What the calls of one operator in one line of the script have cost, over all ranks."""

    calls: int = 0
    ranks: set[int] = field(default_factory=set)
    bytes: int = 0  # what the ranks brought
    dtypes: set[str] = field(default_factory=set)
    is_ddp: bool = False  # its buckets
    in_a_row: int = 0  # calls right after one from the same line that brought something of another shape
    first: What | None = None
    rounds: int = 0  # calls that ask for the same as the first
    seconds: float = 0.0  # in which it held ranks up
    waiting: float = 0.0  # of these, until the last one entered


@dataclass(slots=True)
class Lateness:
    """How often a rank was the last one to enter, and the seconds for which the others were held up by that."""

    count: int = 0
    lost: float = 0.0


class Timeline:
    """Collectives matched across ranks, and the time of each rank; what it counts does not depend on what is kept.

    `text` returns a line of a file: calls from lines that read the same are told to be the same.
    """

    def __init__(self, kept: int | None = KEPT, text: Callable[[str, int], str] = unread) -> None:
        self.collectives: list[Collective] = []  # in the order in which they were first heard of
        self.count = 0  # of all collectives, also of those that are kept no more
        self.costs: dict[tuple[str, int, str], Cost] = {}  # by file, line and operator
        self.traffic: dict[tuple[str, tuple[int, ...]], int] = {}  # bytes sent, by name and members of a group
        self.late: dict[int, Lateness] = {}
        self.met = 0  # collectives that all members, two or more, have entered
        self.gradients = Gradients()
        self._kept = kept
        self._whole = False
        self._matching = Matching()
        self._tracks: dict[int, RankTimeline] = {}
        self._whats: dict[What, What] = {}
        self._calls: dict[tuple[int, int], tuple[Collective, Call]] = {}  # of which more may be heard, by rank, number
        self._done: deque[tuple[int, int]] = deque()  # asynchronous ones of these that have ended
        self._open: dict[Collective, None] = {}  # not finished, in the order in which they were first heard of
        self._failed: dict[Collective, None] = {}  # those that all who had come have given up
        self._mismatches = Mismatches(text)
        self._gone: dict[int, int] = {}  # the status with which a rank has ended
        self._hung: Hung | None = None
        self._before: dict[int, What] = {}  # what the last call of a rank asked for

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that there are."""
        return tuple(sorted(self._tracks))

    def add(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case Issued():
                self._issue(event)
            case Ended(rank=rank, number=number) if (rank, number) in self._calls:
                self._end(event, *self._calls[rank, number])
            case Waiting(rank=rank, number=number, time=time) if (rank, number) in self._calls:
                self._tracks[rank].begin_to_wait(*self._calls[rank, number], time)
            case Waited(rank=rank, number=number) if (rank, number) in self._calls:
                collective, call = self._calls[rank, number]
                self._tracks[rank].wait(collective, call, event.since, event.time)
                self._tracks[rank].settle()
            case Marked():
                self.gradients.add(event)
            case Started(rank=rank, time=time):
                self._track(rank, time).start(time)
                if event.restart:
                    self._begin_anew(rank)
            case Joining(rank=rank, time=time, done=done):
                self._track(rank, time).join(time, done)
                if not done:
                    self._matching.join(rank)
            case Exited(rank=rank, time=time, status=status):
                self._track(rank, time).leave(time)
                self._gone[rank] = status
            case Hung():
                self._hung = event
            case Began(ranks=ranks, device=device):
                self._whole = device == "cuda"
                self._matching.here = frozenset(event.here)
                self._tracks = {
                    rank: RankTimeline(self._kept, self._laid, self._whole) for rank in event.here or range(ranks)
                }
            case End(time=time):
                for track in self._tracks.values():
                    track.finish(time)

    def spans(self, rank: int, now: float) -> list[Span]:
        """Return what a rank did, from its start, or as far back as is kept, up to now."""
        track = self._tracks[rank]
        return track.spans + track.up_to(now).spans

    def totals(self, now: float) -> dict[int, Totals]:
        """Return the seconds of each rank by what it did, up to now."""
        return {rank: self._tracks[rank].up_to(now).totals for rank in self.ranks}

    def current(self) -> list[Collective]:
        """Return the collectives that are not finished."""
        return list(self._open)

    @property
    def mismatches(self) -> list[Mismatch]:
        """The operations for which the ranks ask in ways that do not fit."""
        told = self._mismatches.told()
        known = {(each.group, each.members, each.index) for each in told}
        for collective in (*self._failed, *self._open):
            key = (collective.group, collective.members, collective.index)
            if len(told) < MOST and key not in known and (found := missing(collective, self._gone, self._hung)):
                told.append(found)
        return told

    def _track(self, rank: int, time: float) -> RankTimeline:
        if rank not in self._tracks:
            self._tracks[rank] = RankTimeline(self._kept, self._laid, self._whole)
        self._tracks[rank].begin(time)
        return self._tracks[rank]

    def _begin_anew(self, rank: int) -> None:
        """Let go of what a rank had begun before it was started again: nobody waits for that any more."""
        self._matching.join(rank)
        self._gone.pop(rank, None)
        for unfinished in (self._open, self._failed):
            for collective in [each for each in unfinished if rank in each.calls]:
                del unfinished[collective]

    def _issue(self, event: Issued) -> None:
        what = What.of(event)
        if len(self._whats) > KEPT:
            self._whats.clear()
        call = Call(self._whats.setdefault(what, what), event.number, event.time)
        collective, is_new = self._matching.place(event, call)
        if is_new:
            self.count += 1
            self._open[collective] = None
            self.collectives.append(collective)
            if self._kept is not None and len(self.collectives) > 2 * self._kept:
                del self.collectives[: -self._kept]
        self._calls[event.rank, event.number] = (collective, call)
        self._track(event.rank, event.time).enter(collective, call)
        self._count(event, collective)
        if event.bucket is not None:
            self.gradients.add(event)
        self._mismatches.look(collective)
        if collective.complete:
            last = collective.entered_last
            if last is not None and len(collective.members) > 1 and call.op not in PAIRED:
                self.late.setdefault(last, Lateness()).count += 1
                self.met += 1
            self._settle(collective)

    def _count(self, event: Issued, collective: Collective) -> None:
        what, before = collective.calls[event.rank].what, self._before.get(event.rank)
        cost = self.costs.setdefault((event.file, event.line, event.op), Cost())
        cost.calls += 1
        cost.ranks.add(event.rank)
        cost.bytes += event.bytes
        cost.dtypes.add(event.dtype)
        cost.is_ddp |= event.bucket is not None
        cost.first = cost.first or what
        cost.rounds += what == cost.first
        cost.in_a_row += before is not None and before != what and before.place == what.place
        self._before[event.rank] = what
        key = (event.group, event.members)
        self.traffic[key] = self.traffic.get(key, 0) + sent(what, event.rank, event.members)

    def _end(self, event: Ended, collective: Collective, call: Call) -> None:
        call.began, call.ended, call.failed = event.started, event.time, event.failed
        collective.refresh()
        if event.source is not None:
            send = self._matching.resolve(collective, event.rank, call, event.source)
            if send is not None:  # the two were taken for different ones
                self._forget(collective)
                collective = send
                self._settle(send)
        self._tracks[event.rank].end(call, event.time)
        if event.failed and all(each.ended is not None for each in collective.calls.values()):
            self._open.pop(collective, None)
            self._failed[collective] = None
            if len(self._failed) > KEPT:
                del self._failed[next(iter(self._failed))]
        if not call.asynchronous:
            del self._calls[event.rank, event.number]
        else:  # the script may still wait for it
            self._done.append((event.rank, event.number))
            if len(self._done) > KEPT:
                self._calls.pop(self._done.popleft(), None)
        if collective.ended is not None or call.op == "recv":  # the end of a send that nobody waits for is not told
            self._open.pop(collective, None)
        if self._whole and collective.ended is not None:
            self._settle(collective)
        else:
            self._tracks[event.rank].settle()

    def _forget(self, collective: Collective) -> None:
        self._open.pop(collective, None)
        for at in range(len(self.collectives) - 1, -1, -1):
            if self.collectives[at] is collective:
                del self.collectives[at]
                self.count -= 1
                return

    def _settle(self, collective: Collective) -> None:
        for rank in collective.arrived:
            self._tracks[rank].settle()

    def _laid(self, collective: Collective, call: Call, held: float, waiting: float) -> None:
        """Count what a call has cost."""
        cost = self.costs[call.file, call.line, call.op]
        cost.seconds += held
        cost.waiting += waiting
        if waiting and call.op not in PAIRED and collective.entered_last is not None:
            self.late.setdefault(collective.entered_last, Lateness()).lost += waiting
