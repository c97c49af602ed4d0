"""What happened when on which rank, put together from events as they come, of a live run and a saved one alike.

A `Timeline` matches calls across ranks and feeds each fold that counts calls. It lays out the time of each rank from
left to right, as soon as it is known who entered an operation when.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple, get_args

from ddpquiz.events import event as events
from ddpquiz.events.collective import Call, CallOrder, Collective, Matching, Unfinished
from ddpquiz.events.costs import Costs, DelayCosts
from ddpquiz.events.event import FORM, JOIN
from ddpquiz.events.mismatch import Mismatch, Mismatches
from ddpquiz.events.operation import POINT_TO_POINT, CallPlace, Operation
from ddpquiz.events.rank_training import RankTraining

_OPEN = 2000  # operations of a rank whose end is not known; beyond that the oldest counts as ended
PICKLING = "pickling"  # what stands in the place of an operator where a call with objects does not communicate
_LIMIT = 2000  # collectives, and detailed spans of each rank, that stay in memory; sums are of all
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


class Timeline:
    """Collectives matched across ranks, and the time of each rank.

    Only the last `limit` collectives stay in memory, and older spans are merged (None: no limit); sums and counts are
    always of the whole run. `text` returns a line of a file: calls from lines that read the same count as the same.
    """

    def __init__(self, limit: int | None = _LIMIT, text: Callable[[str, int], str] = lambda *_: "") -> None:
        self.collectives: list[Collective] = []  # in the order of their first calls
        self.count = 0  # of all collectives, also of those that have left memory
        self.costs = Costs()
        self.delays = DelayCosts()  # of a run on the CPU: on a GPU, ranks wait without blocking the script
        self.order = CallOrder()
        self.training: defaultdict[int, RankTraining] = defaultdict(RankTraining)
        self._limit = limit
        self._on_gpu, self._world = False, 0
        self._matching = Matching()
        self._by_rank: dict[int, _RankTimeline] = {}
        self._operations: dict[Operation, Operation] = {}  # so that equal ones share memory
        self._calls: dict[tuple[int, int], tuple[Collective, Call]] = {}  # that may still change, by rank and number
        self._done: deque[tuple[int, int]] = deque()  # background calls of these that have ended
        self._unfinished = Unfinished()
        self._mismatches = Mismatches(text)
        self._exits: dict[int, events.Exited] = {}
        self._hung: events.Hung | None = None
        self._end: events.End | None = None

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(sorted(self._by_rank))

    @property
    def failed(self) -> bool:
        """True if the run ended with a failure, and not because the user stopped it."""
        stopped = self._hung is None and not any(
            exited.status and not exited.stopped for exited in self._exits.values()
        )
        return not (self._end is None or self._end.ok or stopped)

    @property
    def ended_well(self) -> bool:
        """True if every rank has exited, with status 0."""
        return self._by_rank.keys() == self._exits.keys() and not any(each.status for each in self._exits.values())

    def add(self, event: events.Event) -> None:
        if handler := self._handlers.get(type(event)):
            handler(self, event)

    def spans(self, rank: int, now: float) -> list[Span]:
        """What a rank did from its start up to now."""
        timeline = self._by_rank[rank]
        return timeline.spans + timeline.up_to(now).spans

    def totals(self, now: float) -> dict[int, RankTime]:
        """The seconds of each rank by what it did, up to now."""
        return {rank: self._by_rank[rank].up_to(now).totals for rank in self.ranks}

    def current(self) -> list[Collective]:
        """The collectives that are not finished."""
        return list(self._unfinished.open)

    @property
    def unfinished(self) -> list[Collective]:
        """The collectives that failed or are not finished, in the order of their first calls."""
        return self._unfinished.in_order

    def mismatched_since(self) -> float | None:
        """The time since which ranks have been in an operation whose calls do not match; None if they are in none."""
        waiting = [collective for _, collective in self.unlike() if collective in self._unfinished.open]
        return min((max(call.issued for call in collective.calls.values()) for collective in waiting), default=None)

    def unlike(self) -> list[tuple[Mismatch, Collective]]:
        """The collectives in which the calls of the ranks do not match, in the order in which that was seen."""
        return self._mismatches.unlike()

    @property
    def mismatches(self) -> list[Mismatch]:
        """The operations in which the calls of the ranks do not match, each way of it once."""
        exits = {rank: exited.status for rank, exited in self._exits.items()}
        return self._mismatches.found((*self._unfinished.failed, *self._unfinished.open), exits, self._hung)

    def _begin(self, event: events.Began) -> None:
        self._on_gpu, self._world = event.device == "cuda", event.ranks
        self.delays.is_on = not self._on_gpu
        self._by_rank = {rank: self._new_rank(rank) for rank in range(event.ranks)}

    def _start(self, event: events.Started) -> None:
        self._of_rank(event.rank, event.time).start(event.time)
        self.delays.start(event.rank, event.time)
        if event.restart:
            self._begin_again(event.rank)

    def _join(self, event: events.Joining) -> None:
        self._wait_to_form(event, ("", event.line, JOIN))
        if not event.done:
            self._matching.join(event.rank)

    def _form(self, event: events.Forming) -> None:
        self._wait_to_form(event, (event.file, event.line, FORM))

    def _wait_for_keys(self, event: events.StoreWaiting) -> None:
        self._of_rank(event.rank, event.time).join(event.time, event.done, event.op)
        block = self.delays.unblock if event.done else self.delays.block
        block(event.rank, event.time, events.StoreWaiting, (event.file, event.line, event.op))

    def _send_objects(self, event: events.ObjectsSent) -> None:
        place = event.file, event.line, PICKLING
        if not event.done:
            self.costs.count_objects(event.rank, place)
        self._of_rank(event.rank, event.time).pickle(event.time, event.done, place)

    def _wait_to_form(self, event: events.Joining | events.Forming, call: tuple[str, int, str]) -> None:
        self._of_rank(event.rank, event.time).join(event.time, event.done, call[2])
        self.delays.form(event.rank, event.time, call, self._world, done=event.done)

    def _locate(self, event: events.Alive) -> None:
        self.delays.sample(event.rank, event.time, (event.file, event.line))

    def _mark(self, event: events.Mark) -> None:
        self.training[event.rank].mark(event)

    def _leave(self, event: events.Raised | events.Exited) -> None:
        self._of_rank(event.rank, event.time).leave(event.time)
        if isinstance(event, events.Exited):
            self._exits[event.rank] = event

    def _hang(self, event: events.Hung) -> None:
        self._hung = event
        for timeline in self._by_rank.values():
            timeline.leave(event.time)

    def _finish(self, event: events.End) -> None:
        self._end = event
        for timeline in self._by_rank.values():
            timeline.finish(event.time)

    def _new_rank(self, rank: int) -> _RankTimeline:
        return _RankTimeline(rank, self._limit, self.costs.count_block, self.costs.count_pickling, self._on_gpu)

    def _of_rank(self, rank: int, time: float) -> _RankTimeline:
        if rank not in self._by_rank:
            self._by_rank[rank] = self._new_rank(rank)
        self._by_rank[rank].begin(time)
        return self._by_rank[rank]

    def _begin_again(self, rank: int) -> None:
        """Drop what a rank had begun before it was restarted: no rank waits for that any more."""
        self._matching.join(rank)
        self.order.restart(rank)
        self.training[rank].restart()
        self._exits.pop(rank, None)
        self._unfinished.drop_rank(rank)

    def _issue(self, event: events.Issued) -> None:
        if len(self._operations) > _LIMIT:
            self._operations.clear()
        operation = self._operations.setdefault(event.operation, event.operation)
        call = Call(operation, event.number, event.time, after=self.order.add(event.rank, operation))
        collective, is_new = self._matching.place(event.rank, call)
        if is_new:
            self.count += 1
            self._unfinished.open[collective] = None
            self.collectives.append(collective)
            if self._limit is not None and len(self.collectives) > 2 * self._limit:
                del self.collectives[: -self._limit]
        self._calls[event.rank, event.number] = (collective, call)
        self._of_rank(event.rank, event.time).enter(collective, call)
        self.costs.count_call(event.rank, operation)
        if operation.bucket is not None:
            self.training[event.rank].reduce(event, operation.bucket)
        self._mismatches.compare(collective, event.rank)
        if not operation.in_background:
            self.delays.block(event.rank, event.time, collective, operation.place)
        if collective.complete:
            self.delays.complete(collective)
            self.costs.count_collective(collective)
            self._settle(collective)

    def _wait(self, event: events.Waiting) -> None:
        if entered := self._calls.get((event.rank, event.number)):
            collective, call = entered
            self._by_rank[event.rank].wait(collective, call, event.time)
            self.delays.block(event.rank, event.time, collective, call.operation.place)

    def _end_wait(self, event: events.Waited) -> None:
        if entered := self._calls.get((event.rank, event.number)):
            collective, call = entered
            self._by_rank[event.rank].wait(collective, call, event.since, event.time)
            self._by_rank[event.rank].settle()
            self.delays.unblock(event.rank, event.time, collective, call.operation.place)

    def _end_call(self, event: events.Ended) -> None:
        entered = self._calls.get((event.rank, event.number))
        if entered is None:
            return
        collective, call = entered
        call.began, call.ended, call.failed = event.started, event.time, event.failed
        collective.refresh()
        if event.source is not None:
            send = self._matching.resolve(collective, event.rank, call, event.source)
            if send is not None:  # the two counted as different operations until now
                self._forget(collective)
                self.delays.replace(event.rank, collective, send)
                collective = send
                self.delays.complete(send)
                self._settle(send)
        if not call.operation.in_background:
            self.delays.unblock(event.rank, event.time, collective, call.operation.place)
        # NCCL connects the members of a group within the first call, which blocks the script until all have called
        connects = event.started is not None and collective.index == 0 and call.operation.op not in POINT_TO_POINT
        self._by_rank[event.rank].end(call, call.issued if connects else call.entered, event.time)
        calls = collective.calls.values()
        if all(made.ended is not None for made in calls) and any(made.failed for made in calls):
            self._unfinished.fail(collective)
        if not call.operation.in_background:
            del self._calls[event.rank, event.number]
        else:  # the script may still wait for it
            self._done.append((event.rank, event.number))
            if len(self._done) > _LIMIT:
                self._calls.pop(self._done.popleft(), None)
        if collective.ended is not None or call.operation.op == "recv":  # a send has no end unless the script waits
            self._unfinished.open.pop(collective, None)
        if self._on_gpu and collective.ended is not None:
            self._settle(collective)
        else:
            self._by_rank[event.rank].settle()

    def _forget(self, collective: Collective) -> None:
        self._unfinished.open.pop(collective, None)
        if collective in self.collectives:
            self.collectives.remove(collective)
            self.count -= 1

    def _settle(self, collective: Collective) -> None:
        for rank in collective.arrived:
            self._by_rank[rank].settle()

    # what each type of event calls; a type that is not named here changes nothing
    _handlers: ClassVar[dict[type[Any], Callable[[Any, Any], None]]] = {
        events.Began: _begin,
        events.Started: _start,
        events.Issued: _issue,
        events.Ended: _end_call,
        events.Waiting: _wait,
        events.Waited: _end_wait,
        **dict.fromkeys(get_args(events.Mark), _mark),
        events.Alive: _locate,
        events.Joining: _join,
        events.Forming: _form,
        events.StoreWaiting: _wait_for_keys,
        events.ObjectsSent: _send_objects,
        events.Raised: _leave,
        events.Exited: _leave,
        events.Hung: _hang,
        events.End: _finish,
    }


@dataclass
class _RankTimeline:
    """The time of one rank. While an operation blocks it, it waits or communicates, as `_Block` says; else it computes.

    A synchronous call blocks the rank until it has ended; an asynchronous one, and a bucket that DDP reduces beside the
    backward pass, only while the rank is known to wait for it.
    """

    rank: int
    limit: int | None  # detailed spans that stay in memory; older ones are merged
    on_block: Callable[[Collective, Call, float, float], None]  # gets the seconds blocked, and of these those waiting
    on_pickling: Callable[[CallPlace, float], None]  # gets the seconds that a call with objects did not communicate
    on_gpu: bool = False
    began: float | None = None
    ended: float | None = None
    spans: list[Span] = field(default_factory=list)
    overlapped: float = 0.0
    _seconds: dict[Kind, float] = field(default_factory=lambda: {"compute": 0.0, "communication": 0.0, "waiting": 0.0})
    _cursor: float = 0.0  # everything up to here is known
    _covered: float = 0.0  # overlapped communication is counted up to here
    _blocks: deque[_Block] = field(default_factory=deque)
    _flights: deque[tuple[Collective, Call]] = field(default_factory=deque)  # operations in the background
    _pickling: deque[tuple[float, float | None, CallPlace]] = field(default_factory=deque)  # calls with objects
    _gaps: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=_OPEN))

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
            self._block(_Block(call.issued, None, collective, call))
        else:
            self._flights.append((collective, call))
            if len(self._flights) > _OPEN:
                self._flights.popleft()

    def end(self, call: Call, since: float, time: float) -> None:
        """Note that an operation is done, which blocked the rank since `since`; a failed one has no later events."""
        if not call.operation.in_background:
            call.blocks = ((call.entered, time),)
            self._close(call, since, time)
        elif call.failed and (began := self._close(call, None, time)) is not None:
            call.blocks = (*call.blocks, (began, time))

    def wait(self, collective: Collective, call: Call, since: float, until: float | None = None) -> None:
        """Note that the script begins to wait for a background operation, or that it has waited until `until`."""
        if call.operation.in_background:
            call.blocks_script = until is None
            call.blocks = call.blocks if until is None else (*call.blocks[-_OPEN:], (since, until))
            if until is None or self._close(call, since, until) is None:
                self._block(_Block(since, until, collective, call))

    def join(self, time: float, done: bool, op: str) -> None:
        """Note that the rank waits for the others to form a group, or that they have."""
        if done:
            self._close(None, None, time)
        else:
            self._block(_Block(time, op=op))

    def pickle(self, time: float, done: bool, place: CallPlace) -> None:
        """Note that the rank enters a call with objects, or that it has left it."""
        if not done:
            self._pickling.append((time, None, place))
            if len(self._pickling) > _OPEN:
                self._pickling.popleft()
        elif self._pickling and self._pickling[-1][1] is None:
            self._pickling[-1] = self._pickling[-1][0], time, place

    def settle(self) -> None:
        """Lay out everything that no later event changes."""
        while self._blocks and self._blocks[0].is_final(self.on_gpu):
            self._lay(self._blocks.popleft(), None)
        while self._flights:
            collective, call = self._flights[0]
            if call.ended is None or not _is_known(collective, self.on_gpu) or call.ended > self._cursor:
                break
            self._flights.popleft()
            self._overlap(collective, call, call.ended)
        if self.limit is not None and len(self.spans) > 2 * self.limit:
            self.spans[: -self.limit] = _merge(self.spans[: -self.limit], max(1, self.limit // 6))

    def finish(self, now: float) -> None:
        """Lay out everything up to now, or to the rank's end."""
        end = now if self.ended is None else self.ended
        self.settle()
        while self._blocks:
            self._lay(self._blocks.popleft(), end)
        if self.began is not None:
            self._compute(end)
        while self._flights:
            collective, call = self._flights.popleft()
            self._overlap(collective, call, end if call.ended is None else min(call.ended, end))

    def up_to(self, now: float) -> _RankTimeline:
        """A copy that is finished at `now`; its spans are only those that may still change."""
        copy = replace(
            self, limit=None, on_block=lambda *_: None, on_pickling=lambda *_: None, spans=[],
            _seconds=self._seconds.copy(), _blocks=self._blocks.copy(), _flights=self._flights.copy(),
            _pickling=self._pickling.copy(), _gaps=self._gaps.copy(),
        )  # fmt: skip
        copy.finish(now)
        return copy

    def _block(self, block: _Block) -> None:
        self._blocks.append(block)
        if len(self._blocks) > _OPEN:
            self._lay(self._blocks.popleft(), block.start if block.end is None else block.end)

    def _close(self, call: Call | None, since: float | None, until: float) -> float | None:
        """End the time for which a call blocks the rank; return when it began, or None if the call did not block."""
        for block in self._blocks:
            if block.call is call and block.end is None:
                block.start, block.end = block.start if since is None else since, until
                return block.start
        return None

    def _lay(self, block: _Block, now: float | None) -> None:
        """Lay out a block, either one that is final or as it looks at `now`."""
        start, end = max(block.start, self._cursor), block.end
        if end is None:
            end = max(start, now or 0.0)
        if now is not None:
            end = min(end, now)
        if end <= start:
            return
        self._compute(start)
        ready = block.waits_until(start, end)
        op, number = (block.call.operation.op, block.call.number) if block.call else (block.op, 0)
        if block.collective and block.call:
            self.on_block(block.collective, block.call, end - start, ready - start)
        self._push("waiting", ready, op, number)
        self._push("communication", end, op, number)

    def _compute(self, end: float) -> None:
        """Lay out what the rank did until `end` while nothing blocked it: it computed, or pickled, to communicate."""
        while self._pickling and self._pickling[0][0] < end:
            since, until, place = self._pickling[0]
            self._push("compute", since)
            stop = end if until is None else min(until, end)
            self.on_pickling(place, max(0.0, stop - self._cursor))
            self._push("communication", stop, PICKLING)
            if until is None or until > end:
                return
            self._pickling.popleft()
        self._push("compute", end)

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


def _merge(spans: list[Span], count: int) -> list[Span]:
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


@dataclass(slots=True)
class _Block:
    """A time during which a rank could not go on, because of a call; without one, it formed a group in `op`.

    The rank is *waiting* until the last member has entered the operation, and *communicating* from then until the
    operation is done. A member that leaves before the last one has entered, as in a broadcast, waited for its root.
    Where a GPU works, its times count and not those of the calls.
    """

    start: float
    end: float | None = None
    collective: Collective | None = None
    call: Call | None = None
    op: str = ""

    def is_final(self, on_gpu: bool) -> bool:
        """True if no later event changes it."""
        failed = self.call is not None and self.call.failed
        return self.end is not None and (self.collective is None or failed or _is_known(self.collective, on_gpu))

    def waits_until(self, start: float, end: float) -> float:
        """When the rank stops waiting, if it is blocked from `start` to `end` as far as is known."""
        if self.collective is None or self.call is None:
            return end
        started = self.collective.started
        if self.call.failed or (self.end is None and (started is None or self.collective.differs)):
            return end  # it never communicated
        if started is None or started > end:
            started = self._root_entered()
        return max(started, start) if started is not None and started <= end else start

    def _root_entered(self) -> float | None:
        """When the root of a broadcast or scatter entered it; None for other operations, and for the root itself."""
        if self.collective is None or self.call is None or self.call.operation.op not in ("broadcast", "scatter"):
            return None
        root = self.collective.calls.get(-1 if self.call.operation.peer is None else self.call.operation.peer)
        return None if root is None or root is self.call else root.entered


def _is_known(collective: Collective, on_gpu: bool) -> bool:
    """True if it is known when the last member entered; GPUs report that when an operation ends."""
    return collective.complete and (not on_gpu or collective.ended is not None)
