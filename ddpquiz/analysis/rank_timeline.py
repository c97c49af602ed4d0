"""The time of one rank, laid out from left to right as its operations become known."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from ddpquiz.analysis.collective import Call, Collective
from ddpquiz.analysis.waiting import Block, is_known

OPEN = 2000  # operations whose end is not known; beyond that the oldest counts as ended
Kind = Literal["compute", "communication", "waiting"]


class Span(NamedTuple):
    """What a rank did from `start` to `end`, and in which operation (none and 0 for computing and merged spans)."""

    kind: Kind
    start: float
    end: float
    op: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class RankTime:
    """Seconds of a rank by what it did. `overlapped` is communication that ran while it computed: it cost nothing."""

    rank: int
    compute: float
    communication: float
    waiting: float
    overlapped: float

    @property
    def lifetime(self) -> float:
        """Seconds from its start to its end."""
        return self.compute + self.communication + self.waiting


@dataclass
class RankTimeline:
    """While an operation blocks a rank, it is waiting or communicating, as `Block` says; otherwise it is computing.

    A synchronous call blocks the rank until it has ended; an asynchronous one, and a bucket that DDP reduces beside the
    backward pass, only while the rank is known to wait for it.
    """

    rank: int
    limit: int | None  # detailed spans that stay in memory; older ones are merged
    on_block: Callable[[Collective, Call, float, float], None]  # gets the seconds blocked, and of these those waiting
    on_gpu: bool = False
    began: float | None = None
    ended: float | None = None
    spans: list[Span] = field(default_factory=list)
    overlapped: float = 0.0
    _seconds: dict[Kind, float] = field(default_factory=lambda: {"compute": 0.0, "communication": 0.0, "waiting": 0.0})
    _cursor: float = 0.0  # everything up to here is known
    _covered: float = 0.0  # overlapped communication is counted up to here
    _blocks: deque[Block] = field(default_factory=deque)
    _flights: deque[tuple[Collective, Call]] = field(default_factory=deque)  # operations in the background
    _gaps: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=OPEN))

    @property
    def totals(self) -> RankTime:
        """The seconds that are laid out, by what the rank did."""
        return RankTime(self.rank, **self._seconds, overlapped=self.overlapped)

    def begin(self, time: float) -> None:
        """Start the timeline unless an earlier event has."""
        if self.began is None:
            self.began = self._cursor = time

    def start(self, time: float) -> None:
        """Note that the rank's process starts, or another process in its place."""
        if self.ended is not None:
            self.finish(self.ended)
            self.ended, self._cursor = None, max(time, self._cursor)

    def leave(self, time: float) -> None:
        """Note that the script of the rank has ended; what the process does after that is no part of the run."""
        self.ended = time if self.ended is None else self.ended

    def enter(self, collective: Collective, call: Call) -> None:
        if not call.operation.in_background:
            self._block(Block(call.issued, None, collective, call))
        else:
            self._flights.append((collective, call))
            if len(self._flights) > OPEN:
                self._flights.popleft()

    def end(self, call: Call, time: float) -> None:
        """Note that an operation is done; a failed one has no later events."""
        if not call.operation.in_background:
            call.blocks = ((call.entered, time),)
            self._close(call, call.entered, time)
        elif call.failed and (since := self._close(call, None, time)) is not None:
            call.blocks = (*call.blocks, (since, time))

    def wait(self, collective: Collective, call: Call, since: float, until: float | None = None) -> None:
        """Note that the script begins to wait for a background operation, or that it has waited until `until`."""
        if call.operation.in_background:
            call.blocks_script = until is None
            call.blocks = call.blocks if until is None else (*call.blocks[-OPEN:], (since, until))
            if until is None or self._close(call, since, until) is None:
                self._block(Block(since, until, collective, call))

    def join(self, time: float, done: bool, op: str) -> None:
        """Note that the rank waits for the others to form a group, or that they have."""
        if done:
            self._close(None, None, time)
        else:
            self._block(Block(time, op=op))

    def settle(self) -> None:
        """Lay out everything that no later event changes."""
        while self._blocks and self._blocks[0].is_final(self.on_gpu):
            self._lay(self._blocks.popleft(), None)
        while self._flights:
            collective, call = self._flights[0]
            if call.ended is None or not is_known(collective, self.on_gpu) or call.ended > self._cursor:
                break
            self._flights.popleft()
            self._overlap(collective, call, call.ended)
        if self.limit is not None and len(self.spans) > 2 * self.limit:
            self.spans[: -self.limit] = merge(self.spans[: -self.limit], max(1, self.limit // 6))

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
        """Return a copy that is finished at `now`; its spans are only those that may still change."""
        copy = replace(
            self, limit=None, on_block=lambda *_: None, spans=[], _seconds=self._seconds.copy(),
            _blocks=self._blocks.copy(), _flights=self._flights.copy(), _gaps=self._gaps.copy(),
        )  # fmt: skip
        copy.finish(now)
        return copy

    def _block(self, block: Block) -> None:
        self._blocks.append(block)
        if len(self._blocks) > OPEN:
            self._lay(self._blocks.popleft(), block.start if block.end is None else block.end)

    def _close(self, call: Call | None, since: float | None, until: float) -> float | None:
        """End the time for which a call blocks the rank; return when it began, or None if the call did not block."""
        for block in self._blocks:
            if block.call is call and block.end is None:
                block.start, block.end = block.start if since is None else since, until
                return block.start
        return None

    def _lay(self, block: Block, now: float | None) -> None:
        """Lay out a block, either one that is final or as it looks at `now`."""
        start, end = max(block.start, self._cursor), block.end
        if end is None:
            end = max(start, now or 0.0)
        if now is not None:
            end = min(end, now)
        if end <= start:
            return
        self._push("compute", start)
        ready = block.waits_until(start, end)
        op, number = (block.call.operation.op, block.call.number) if block.call else (block.op, 0)
        if block.collective and block.call:
            self.on_block(block.collective, block.call, end - start, ready - start)
        self._push("waiting", ready, op, number)
        self._push("communication", end, op, number)

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


def merge(spans: list[Span], count: int) -> list[Span]:
    """Divide spans into about `count` stretches of time, each with at most one span of a kind.

    So a run of any length fits into memory, and its picture still shows the shares of each stretch.
    """
    shortest = (spans[-1].end - spans[0].start) / count
    merged: list[Span] = []
    seconds: dict[Kind, float] = {}
    start = spans[0].start
    for span in spans:
        seconds[span.kind] = seconds.get(span.kind, 0.0) + span.end - span.start
        if span.end - start < shortest and span is not spans[-1]:
            continue
        last = next(reversed(seconds))
        for kind, share in seconds.items():
            end = span.end if kind == last else min(start + share, span.end)  # without errors of rounding
            if end > start:
                merged.append(Span(kind, start, end))
            start = end
        seconds = {}
    return merged
