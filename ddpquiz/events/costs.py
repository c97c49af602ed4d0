"""What the calls of a run have cost, and what made ranks wait.

`Costs` sums calls by line of the script, group and late rank. `DelayCosts` charges each wait to the computing that
caused it, through chains of waits. A `Timeline` feeds both.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

from ddpquiz.events.collective import Call, Collective
from ddpquiz.events.operation import POINT_TO_POINT, CallPlace, Operation

_MOST_ACTIVITIES = 256  # of each rank that are compared; ranks meet more often
_SHORTEST = 1e-6  # seconds; a shorter wait is not charged

Place = tuple[str, int]  # file and line


@dataclass(slots=True)
class Growth:
    """How the bytes that ranks bring to a call change from one call of a rank to its next."""

    smallest: int
    largest: int
    compared: int = 0
    grew: int = 0
    shrank: int = 0
    last: dict[int, int] = field(default_factory=dict)  # by rank

    def add(self, rank: int, count: int) -> None:
        before = self.last.get(rank)
        self.last[rank] = count
        self.smallest, self.largest = min(self.smallest, count), max(self.largest, count)
        if before is not None:
            self.compared += 1
            self.grew += count > before
            self.shrank += count < before


@dataclass(slots=True)
class Cost:
    """What the calls of one operator in one line of the script have cost, over all ranks."""

    calls: int = 0
    ranks: set[int] = field(default_factory=set)
    bytes: int = 0  # that the ranks brought
    dtypes: set[str] = field(default_factory=set)
    is_ddp: bool = False  # DDP's buckets
    in_a_row: int = 0  # calls right after one from the same line that brought something of another shape
    first: Operation | None = None
    rounds: int = 0  # calls that ask for the same as the first
    seconds: float = 0.0  # for which it blocked ranks
    waiting: float = 0.0  # of these, until the last rank entered
    growth: dict[str, Growth] = field(default_factory=dict)  # by dtype


@dataclass(slots=True)
class Lateness:
    """How often a rank was the last one to enter, and the seconds for which the others were blocked by that."""

    count: int = 0
    lost: float = 0.0


class Costs:
    """Sums over all calls of a run."""

    def __init__(self) -> None:
        self.lines: defaultdict[CallPlace, Cost] = defaultdict(Cost)
        self.traffic: Counter[tuple[str, tuple[int, ...]]] = Counter()  # bytes sent, by name and members of a group
        self.late: defaultdict[int, Lateness] = defaultdict(Lateness)  # by rank
        self.collectives = 0  # collectives that all members, two or more, have entered
        self._previous: dict[int, Operation] = {}  # what the last call of a rank asked for

    def count_call(self, rank: int, operation: Operation) -> None:
        """Count a call when it is issued."""
        previous, self._previous[rank] = self._previous.get(rank), operation
        cost = self.lines[operation.place]
        cost.calls += 1
        cost.ranks.add(rank)
        cost.bytes += operation.bytes
        cost.dtypes.add(operation.dtype)
        growth = cost.growth.get(operation.dtype)
        if growth is None:
            growth = cost.growth[operation.dtype] = Growth(operation.bytes, operation.bytes)
        growth.add(rank, operation.bytes)
        cost.is_ddp |= operation.bucket is not None
        cost.first = cost.first or operation
        cost.rounds += operation == cost.first
        cost.in_a_row += previous is not None and previous != operation and previous.place == operation.place
        self.traffic[operation.group, operation.members] += operation.bytes_sent_by(rank)

    def count_objects(self, rank: int, place: CallPlace) -> None:
        """Count a call that sends objects, besides its collectives."""
        cost = self.lines[place]
        cost.calls += 1
        cost.ranks.add(rank)

    def count_pickling(self, place: CallPlace, seconds: float) -> None:
        """Count the seconds of such a call in which it did not communicate."""
        self.lines[place].seconds += seconds

    def count_collective(self, collective: Collective) -> None:
        """Count a collective that its last member has just entered."""
        last = collective.entered_last
        if last is not None and len(collective.members) > 1 and collective.operation.op not in POINT_TO_POINT:
            self.late[last].count += 1
            self.collectives += 1

    def count_block(self, collective: Collective, call: Call, blocked: float, waiting: float) -> None:
        """Count the seconds for which a call blocked its rank."""
        cost = self.lines[call.operation.place]
        cost.seconds += blocked
        cost.waiting += waiting
        last = collective.entered_last
        if waiting and call.operation.op not in POINT_TO_POINT and last is not None:
            self.late[last].lost += waiting


class ComputeSpan(NamedTuple):
    """Computing of a rank from one blocking call to the next; `after` is None at the start of the script."""

    rank: int
    after: CallPlace | None
    before: CallPlace


@dataclass(slots=True)
class _Activity:
    """Computing in a span, a wait with its causes (seconds by span), or an operation in which a rank met others."""

    seconds: float = 0.0
    span: ComputeSpan | None = None
    causes: dict[ComputeSpan, float] | None = None
    met: Hashable = None


@dataclass(slots=True)
class _Lane:
    """One rank: what it did lately, and what it is in now."""

    since: float  # when the computing began that goes on now
    after: CallPlace | None = None
    past: deque[_Activity] = field(default_factory=deque)
    met: set[Hashable] = field(default_factory=set)  # the operations in which it met others in that time
    is_cut: bool = False  # older activities were dropped
    blocked: dict[Hashable, float] = field(default_factory=dict)  # what it is blocked in, and since when
    waited_until: float = 0.0
    samples: list[tuple[float, Place]] = field(default_factory=list)  # where it was seen in this computing

    def add(self, activity: _Activity) -> None:
        self.past.append(activity)
        if activity.met is not None:
            self.met.add(activity.met)
        if len(self.past) > _MOST_ACTIVITIES:
            self.met.discard(self.past.popleft().met)
            self.is_cut = True


@dataclass(slots=True)
class LineTimes:
    """Visits of a span, and the seconds that were seen to pass at each line."""

    visits: int = 0
    lines: defaultdict[Place, float] = field(default_factory=lambda: defaultdict(float))


class DelayCosts:
    """Seconds for which other ranks waited, by the span of computing that caused it."""

    def __init__(self) -> None:
        self.is_on = True  # on a GPU, nobody sees when ranks wait
        self.seconds: defaultdict[ComputeSpan, float] = defaultdict(float)
        self.times: Counter[ComputeSpan] = Counter()  # operations at which a rank came last because of it
        self.visited: defaultdict[ComputeSpan, LineTimes] = defaultdict(LineTimes)
        self._lanes: dict[int, _Lane] = {}
        self._forming: Counter[tuple[int, str]] = Counter()  # how often a rank has formed a group
        self._formed: dict[tuple[str, int], list[int]] = {}  # the ranks that have come to form it

    def start(self, rank: int, time: float) -> None:
        """Note that a rank begins its script, perhaps again."""
        self._lanes[rank] = _Lane(time)

    def sample(self, rank: int, time: float, place: Place) -> None:
        """Note where a rank was seen."""
        lane = self._lanes.get(rank)
        if lane and not lane.blocked:
            lane.samples.append((time, place))

    def form(self, rank: int, time: float, call: CallPlace, ranks: int, *, done: bool) -> None:
        """Note that a rank waits in a call in which all ranks form a group, or has left it."""
        number = self._forming[rank, call[2]]
        met = call[2], number
        if done:
            self._forming[rank, call[2]] += 1
            self.unblock(rank, time, met, call)
            return
        self.block(rank, time, met, call)
        came = self._formed.setdefault(met, [])
        came.append(rank)
        if len(came) == ranks:
            del self._formed[met]
            self._charge(met, came, rank, time, call)

    def block(self, rank: int, time: float, what: Hashable, call: CallPlace) -> None:
        """Note that a rank cannot go on because of a call."""
        lane = self._lanes.setdefault(rank, _Lane(time))
        if not lane.blocked:
            self._close(rank, lane, time, call)
        lane.blocked.setdefault(what, time)

    def unblock(self, rank: int, time: float, what: Hashable, call: CallPlace) -> None:
        """Note that a rank goes on."""
        lane = self._lanes.get(rank)
        if lane and lane.blocked.pop(what, None) is not None and not lane.blocked:
            lane.since, lane.after, lane.samples = time, call, []

    def replace(self, rank: int, what: Hashable, by: Hashable) -> None:
        """Note that what a rank is blocked in is known to be part of another operation."""
        blocked = self._lanes[rank].blocked
        if what in blocked:
            blocked[by] = blocked.pop(what)

    def complete(self, collective: Collective) -> None:
        """Charge the waits of an operation that its last member has just entered."""
        last = collective.entered_last
        if last is not None and self.is_on:
            call = collective.calls[last]
            self._charge(collective, collective.calls, last, call.issued, call.operation.place)

    def _charge(self, what: Hashable, members: Iterable[int], last: int, time: float, call: CallPlace) -> None:
        lane = self._lanes.get(last)
        lanes = {rank: self._lanes[rank] for rank in members if rank in self._lanes}
        waiters = [waiter for rank, waiter in lanes.items() if rank != last and what in waiter.blocked]
        if lane is None or not waiters:
            return
        if not lane.blocked:  # it goes on while the operation runs
            self._close(last, lane, time, call)
            lane.since, lane.after = time, call
        for waiter in waiters:
            waited = time - max(waiter.blocked[what], waiter.waited_until)
            waiter.waited_until = time
            if waited > _SHORTEST:
                causes = _causes(waiter, lane, waited)
                for span, seconds in causes.items():
                    self.seconds[span] += seconds
                    self.times[span] += 1
                waiter.add(_Activity(waited, causes=causes))
            waiter.add(_Activity(met=what))
        lane.add(_Activity(met=what))

    def _close(self, rank: int, lane: _Lane, time: float, call: CallPlace) -> None:
        """Note how long a rank has computed until now."""
        span = ComputeSpan(rank, lane.after, call)
        lane.add(_Activity(max(0.0, time - lane.since), span))
        seen = self.visited[span]
        seen.visits += 1
        begin = lane.since
        for number, (_, place) in enumerate(lane.samples):
            end = lane.samples[number + 1][0] if number + 1 < len(lane.samples) else time
            seen.lines[place] += max(0.0, end - begin)
            begin = max(begin, end)
        lane.samples = []


def _causes(waiter: _Lane, last: _Lane, waited: float) -> dict[ComputeSpan, float]:
    """The seconds of a wait by what the last rank did for longer than the waiter since they last met."""
    since = _since_they_met(waiter, last)
    if since is None:
        return {}
    by_waiter, by_last = since
    usual: defaultdict[tuple[CallPlace | None, CallPlace], float] = defaultdict(float)
    longer: defaultdict[ComputeSpan, float] = defaultdict(float)
    for activity in by_waiter:
        if activity.span:
            usual[activity.span[1:]] += activity.seconds
    for activity in by_last:
        if activity.span:
            longer[activity.span] += activity.seconds
    for span in longer:
        longer[span] = max(0.0, longer[span] - usual[span[1:]])
    waits = [activity for activity in by_last if activity.causes is not None]
    idle = sum(wait.seconds for wait in waits)
    more = max(0.0, idle - sum(activity.seconds for activity in by_waiter if activity.causes is not None))
    for wait in waits:
        for span, seconds in (wait.causes or {}).items():
            longer[span] += seconds * more / idle
    whole = sum(longer.values())
    scale = min(1.0, waited / whole) if whole else 0.0
    return {span: seconds * scale for span, seconds in longer.items() if seconds * scale > _SHORTEST}


def _since_they_met(waiter: _Lane, last: _Lane) -> tuple[list[_Activity], list[_Activity]] | None:
    """What two ranks did since they last met, or since their start; None if that is no longer known."""
    met = next((activity.met for activity in reversed(last.past) if activity.met in waiter.met), None)
    if met is None and (waiter.is_cut or last.is_cut):
        return None
    return _after(waiter, met), _after(last, met)


def _after(lane: _Lane, met: Hashable) -> list[_Activity]:
    """What a rank did after it was in an operation, the newest first; everything if `met` is None."""
    return list(takewhile(lambda activity: met is None or activity.met != met, reversed(lane.past)))
