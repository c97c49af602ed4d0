"""What happened when on which rank, put together from events: pure, so it serves a live run and a saved one alike."""

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, ClassVar

from ddpquiz.analysis import events
from ddpquiz.analysis.call_order import CallOrder
from ddpquiz.analysis.collective import Call, Collective, Matching
from ddpquiz.analysis.costs import Costs, RankGradients
from ddpquiz.analysis.delay_costs import DelayCosts
from ddpquiz.analysis.mismatch import Mismatch, Mismatches
from ddpquiz.analysis.operation import FORM, JOIN, Operation
from ddpquiz.analysis.rank_timeline import RankTime, RankTimeline, Span
from ddpquiz.analysis.unfinished import Unfinished

LIMIT = 2000  # collectives, and detailed spans of each rank, that stay in memory; sums are of all


class Timeline:
    """Collectives matched across ranks, and the time of each rank.

    Only the last `limit` collectives stay in memory, and older spans are merged (None: no limit); sums and counts are
    always of the whole run. `text` returns a line of a file: calls from lines that read the same count as the same.
    """

    def __init__(self, limit: int | None = LIMIT, text: Callable[[str, int], str] = lambda *_: "") -> None:
        self.collectives: list[Collective] = []  # in the order of their first calls
        self.count = 0  # of all collectives, also of those that have left memory
        self.costs = Costs()
        self.delays = DelayCosts()  # of a run on the CPU: on a GPU, ranks wait without blocking the script
        self.order = CallOrder()
        self.gradients: defaultdict[int, RankGradients] = defaultdict(RankGradients)
        self._limit = limit
        self._on_gpu, self._world = False, 0
        self._matching = Matching()
        self._tracks: dict[int, RankTimeline] = {}
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
        return tuple(sorted(self._tracks))

    @property
    def failed(self) -> bool:
        """True if the run ended with a failure, and not because the user stopped it."""
        stopped = self._hung is None and not any(each.status and not each.stopped for each in self._exits.values())
        return not (self._end is None or self._end.ok or stopped)

    def add(self, event: events.Event) -> None:
        if handler := self._handlers.get(type(event)):
            handler(self, event)

    def spans(self, rank: int, now: float) -> list[Span]:
        """Return what a rank did from its start up to now."""
        track = self._tracks[rank]
        return track.spans + track.up_to(now).spans

    def totals(self, now: float) -> dict[int, RankTime]:
        """Return the seconds of each rank by what it did, up to now."""
        return {rank: self._tracks[rank].up_to(now).totals for rank in self.ranks}

    def current(self) -> list[Collective]:
        """Return the collectives that are not finished."""
        return list(self._unfinished.open)

    @property
    def unfinished(self) -> list[Collective]:
        """The collectives that failed or are not finished, in the order of their first calls."""
        return self._unfinished.in_order

    def mismatched_since(self) -> float | None:
        """Return since when ranks are in an operation in which their calls do not match; None if there is none."""
        waiting = [each for _, each in self._mismatches.unlike() if each in self._unfinished.open]
        return min((max(call.issued for call in each.calls.values()) for each in waiting), default=None)

    def unlike(self) -> list[tuple[Mismatch, Collective]]:
        """Return the collectives in which the calls of the ranks do not match, in the order in which that was seen."""
        return self._mismatches.unlike()

    @property
    def mismatches(self) -> list[Mismatch]:
        """The operations in which the calls of the ranks do not match, each way of it once."""
        exits = {rank: each.status for rank, each in self._exits.items()}
        return self._mismatches.found((*self._unfinished.failed, *self._unfinished.open), exits, self._hung)

    def _begin(self, event: events.Began) -> None:
        self._on_gpu, self._world = event.device == "cuda", event.ranks
        self.delays.is_on = not self._on_gpu
        self._tracks = {rank: self._new_track(rank) for rank in range(event.ranks)}

    def _start(self, event: events.Started) -> None:
        self._track(event.rank, event.time).start(event.time)
        self.delays.start(event.rank, event.time)
        if event.restart:
            self._begin_again(event.rank)

    def _join(self, event: events.Joining) -> None:
        self._wait_to_form(event, ("", event.line, JOIN))
        if not event.done:
            self._matching.join(event.rank)

    def _form(self, event: events.Forming) -> None:
        self._wait_to_form(event, (event.file, event.line, FORM))

    def _wait_to_form(self, event: events.Joining | events.Forming, call: tuple[str, int, str]) -> None:
        self._track(event.rank, event.time).join(event.time, event.done, call[2])
        self.delays.form(event.rank, event.time, call, self._world, done=event.done)

    def _locate(self, event: events.Alive) -> None:
        self.delays.sample(event.rank, event.time, (event.file, event.line))

    def _mark(self, event: events.Marked) -> None:
        self.gradients[event.rank].mark(event.what, event.line)

    def _leave(self, event: events.Raised | events.Exited) -> None:
        self._track(event.rank, event.time).leave(event.time)
        if isinstance(event, events.Exited):
            self._exits[event.rank] = event

    def _hang(self, event: events.Hung) -> None:
        self._hung = event
        for track in self._tracks.values():
            track.leave(event.time)

    def _finish(self, event: events.End) -> None:
        self._end = event
        for track in self._tracks.values():
            track.finish(event.time)

    def _new_track(self, rank: int) -> RankTimeline:
        return RankTimeline(rank, self._limit, self.costs.count_block, self._on_gpu)

    def _track(self, rank: int, time: float) -> RankTimeline:
        if rank not in self._tracks:
            self._tracks[rank] = self._new_track(rank)
        self._tracks[rank].begin(time)
        return self._tracks[rank]

    def _begin_again(self, rank: int) -> None:
        """Drop what a rank had begun before it was restarted: no rank waits for that any more."""
        self._matching.join(rank)
        self.order.restart(rank)
        self._exits.pop(rank, None)
        self._unfinished.drop_rank(rank)

    def _issue(self, event: events.Issued) -> None:
        if len(self._operations) > LIMIT:
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
        self._track(event.rank, event.time).enter(collective, call)
        self.costs.count_call(event.rank, operation)
        if operation.bucket is not None:
            self.gradients[event.rank].reduce(event, operation.bucket)
        self._mismatches.compare(collective, event.rank)
        if not operation.in_background:
            self.delays.block(event.rank, event.time, collective, operation.place)
        if collective.complete:
            self.delays.complete(collective)
            self.costs.count_meeting(collective)
            self._settle(collective)

    def _wait(self, event: events.Waiting) -> None:
        if found := self._calls.get((event.rank, event.number)):
            self._tracks[event.rank].wait(*found, event.time)
            self.delays.block(event.rank, event.time, found[0], found[1].operation.place)

    def _end_wait(self, event: events.Waited) -> None:
        if found := self._calls.get((event.rank, event.number)):
            self._tracks[event.rank].wait(*found, event.since, event.time)
            self._tracks[event.rank].settle()
            self.delays.unblock(event.rank, event.time, found[0], found[1].operation.place)

    def _end_call(self, event: events.Ended) -> None:
        found = self._calls.get((event.rank, event.number))
        if found is None:
            return
        collective, call = found
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
        self._tracks[event.rank].end(call, event.time)
        calls = collective.calls.values()
        if all(each.ended is not None for each in calls) and any(each.failed for each in calls):
            self._unfinished.fail(collective)
        if not call.operation.in_background:
            del self._calls[event.rank, event.number]
        else:  # the script may still wait for it
            self._done.append((event.rank, event.number))
            if len(self._done) > LIMIT:
                self._calls.pop(self._done.popleft(), None)
        if collective.ended is not None or call.operation.op == "recv":  # a send has no end unless the script waits
            self._unfinished.open.pop(collective, None)
        if self._on_gpu and collective.ended is not None:
            self._settle(collective)
        else:
            self._tracks[event.rank].settle()

    def _forget(self, collective: Collective) -> None:
        self._unfinished.open.pop(collective, None)
        if collective in self.collectives:
            self.collectives.remove(collective)
            self.count -= 1

    def _settle(self, collective: Collective) -> None:
        for rank in collective.arrived:
            self._tracks[rank].settle()

    # what each type of event calls; a type that is not named here changes nothing
    _handlers: ClassVar[dict[type[Any], Callable[[Any, Any], None]]] = {
        events.Began: _begin,
        events.Started: _start,
        events.Issued: _issue,
        events.Ended: _end_call,
        events.Waiting: _wait,
        events.Waited: _end_wait,
        events.Marked: _mark,
        events.Alive: _locate,
        events.Joining: _join,
        events.Forming: _form,
        events.Raised: _leave,
        events.Exited: _leave,
        events.Hung: _hang,
        events.End: _finish,
    }
