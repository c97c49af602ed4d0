"""The time of one rank, laid out from left to right as its operations become known."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from ddpquiz.analysis.collective import needs

if TYPE_CHECKING:
    from collections.abc import Callable

    from ddpquiz.analysis.collective import Call, Collective

OPEN = 2000  # operations whose end is not known; with more, the oldest is taken for ended

Kind = Literal["compute", "communication", "waiting"]


class Span(NamedTuple):
    """What a rank did from `start` to `end`, and in which operation; computing has none, and the number 0."""

    kind: Kind
    start: float
    end: float
    op: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class Totals:
    """Seconds of a rank by what it did. `overlapped` is communication under way while it computed: it cost nothing."""

    compute: float = 0.0
    communication: float = 0.0
    waiting: float = 0.0
    overlapped: float = 0.0

    @property
    def lifetime(self) -> float:
        """Seconds from its start to its end."""
        return self.compute + self.communication + self.waiting


@dataclass(slots=True)
class _Block:
    """A time in which the rank could not go on, for a call, or to join the others when there is none."""

    start: float
    end: float | None = None
    collective: Collective | None = None
    call: Call | None = None

    def is_final(self, whole: bool) -> bool:
        """Whether nothing that is heard later changes it."""
        failed = self.call is not None and self.call.failed
        return self.end is not None and (self.collective is None or failed or _known(self.collective, whole))


def _known(collective: Collective, whole: bool) -> bool:
    """Whether it is known when the last member entered; with `whole`, that is told when an operation ends."""
    return collective.complete and (not whole or collective.ended is not None)


@dataclass
class RankTimeline:
    """A rank is *waiting* from when an operation holds it up until the last member has entered that operation.

    From then until the operation lets it go it is *communicating*; at all other times, *computing*. A synchronous call
    holds the rank up until it has ended; an asynchronous one, and a bucket that DDP reduces beside the backward pass,
    only while the rank is known to wait for it. A member that leaves before the last one has entered (the root of a
    broadcast may) did not wait for it. Where a GPU works, its times count and not those of the calls.
    """

    kept: int | None
    on_laid: Callable[[Collective, Call, float, float], None]  # told of seconds held up, and of those waiting
    whole: bool = False  # GPUs say when they began only when they have ended
    began: float | None = None
    ended: float | None = None
    spans: list[Span] = field(default_factory=list)
    overlapped: float = 0.0
    _seconds: dict[Kind, float] = field(default_factory=lambda: {"compute": 0.0, "communication": 0.0, "waiting": 0.0})
    _cursor: float = 0.0  # up to here everything is known
    _covered: float = 0.0  # up to here overlapped communication is counted
    _blocks: deque[_Block] = field(default_factory=deque)
    _flights: deque[tuple[Collective, Call]] = field(default_factory=deque)  # what runs beside the script
    _gaps: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=OPEN))

    @property
    def totals(self) -> Totals:
        """The seconds that are laid out, by what the rank did."""
        return Totals(**self._seconds, overlapped=self.overlapped)

    def begin(self, time: float) -> None:
        """The rank starts, if nothing was heard of it before."""
        if self.began is None:
            self.began = self._cursor = time

    def start(self, time: float) -> None:
        """The rank's process starts, or another one in its place."""
        if self.ended is not None:
            self.finish(self.ended)
            self.ended, self._cursor = None, max(time, self._cursor)

    def enter(self, collective: Collective, call: Call) -> None:
        """The rank calls an operation."""
        if not call.asynchronous:
            self._blocks.append(_Block(call.issued, None, collective, call))
            if len(self._blocks) > OPEN:
                self._lay(self._blocks.popleft(), call.issued)
        else:
            self._flights.append((collective, call))
            if len(self._flights) > OPEN:
                self._flights.popleft()

    def end(self, call: Call, time: float) -> None:
        """An operation is done; nothing more is heard of one that failed."""
        if not call.asynchronous:
            call.blocks = ((call.entered, time),)
            self._close(call, call.entered, time)
        elif call.failed and (since := self._close(call, None, time)) is not None:
            call.blocks = (*call.blocks, (since, time))

    def begin_to_wait(self, collective: Collective, call: Call, since: float) -> None:
        """The script begins to wait for an asynchronous operation."""
        if call.asynchronous:
            self._blocks.append(_Block(since, None, collective, call))

    def wait(self, collective: Collective, call: Call, since: float, until: float) -> None:
        """The script had to wait for an asynchronous operation."""
        if call.asynchronous:
            call.blocks = (*call.blocks, (since, until))
            if self._close(call, since, until) is None:
                self._blocks.append(_Block(since, until, collective, call))

    def _close(self, call: Call, since: float | None, until: float) -> float | None:
        """Note until when a call has held the rank up, and return since when; None if it was not known to do so."""
        for block in self._blocks:
            if block.call is call and block.end is None:
                block.start, block.end = block.start if since is None else since, until
                return block.start
        return None

    def join(self, time: float, done: bool) -> None:
        """The rank waits for the others to form a group, or has done so."""
        if not done:
            self._blocks.append(_Block(time))
            return
        for block in self._blocks:
            if block.call is None and block.end is None:
                block.end = time
                return

    def leave(self, time: float) -> None:
        """The rank's process is gone."""
        self.ended = time

    def settle(self) -> None:
        """Lay out what is known for sure."""
        while self._blocks and self._blocks[0].is_final(self.whole):
            self._lay(self._blocks.popleft(), None)
        while self._flights:
            collective, call = self._flights[0]
            if call.ended is None or not _known(collective, self.whole) or call.ended > self._cursor:
                break
            self._flights.popleft()
            self._overlap(collective, call, call.ended)
        if self.kept is not None and len(self.spans) > 2 * self.kept:
            del self.spans[: -self.kept]

    def finish(self, now: float) -> None:
        """Lay out everything up to now, or to the rank's end."""
        end = now if self.ended is None else self.ended
        self.settle()
        while self._blocks:
            self._lay(self._blocks.popleft(), end)
        if self.began is not None:
            self._push("compute", end)
        while self._flights:
            collective, call = self._flights.popleft()
            self._overlap(collective, call, end if call.ended is None else min(call.ended, end))

    def up_to(self, now: float) -> RankTimeline:
        """Return the track as it looks at `now`, with only those spans that are not laid out for sure yet."""
        seen = replace(
            self, kept=None, on_laid=_nobody, spans=[], _seconds=self._seconds.copy(), _blocks=self._blocks.copy(),
            _flights=self._flights.copy(), _gaps=self._gaps.copy(),
        )  # fmt: skip
        seen.finish(now)
        return seen

    def _lay(self, block: _Block, now: float | None) -> None:
        """Lay out a block that is known, or as it looks at `now`."""
        start, end = max(block.start, self._cursor), block.end
        if end is None:
            end = max(start, now or 0.0)
        if now is not None:
            end = min(end, now)
        if end <= start:
            return
        self._push("compute", start)
        collective, call = block.collective, block.call
        if collective is None or call is None:
            self._push("waiting", end, "init_process_group")
            return
        started = collective.started
        if call.failed or (started is None and block.end is None):  # what failed was never at work
            ready = end
        elif started is None:
            ready = start
        else:
            ready = min(max(started, start), end) if needs(started, end) else start
        self.on_laid(collective, call, end - start, ready - start)
        self._push("waiting", ready, call.op, call.number)
        self._push("communication", end, call.op, call.number)

    def _push(self, kind: Kind, end: float, op: str = "", number: int = 0) -> None:
        start = self._cursor
        if end <= start:
            return
        self.spans.append(Span(kind, start, end, op, number))
        self._cursor = end
        self._seconds[kind] += end - start
        if kind == "compute" and self._flights:
            self._gaps.append((start, end))

    def _overlap(self, collective: Collective, call: Call, end: float) -> None:
        """Count the part of an operation that ran beside computing, and no second twice."""
        if collective.started is None:
            return
        start = max(call.entered, collective.started, self._covered)
        self.overlapped += sum(max(0.0, min(end, until) - max(start, since)) for since, until in self._gaps)
        self._covered = max(self._covered, end)
        while self._gaps and self._gaps[0][1] <= self._covered:
            self._gaps.popleft()


def _nobody(collective: Collective, call: Call, held: float, waiting: float) -> None:
    """Hear nothing."""
