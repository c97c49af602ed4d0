"""Which calls of ranks belong together, also those of new_group, and in which order ranks call.

A `Collective` is one operation across its ranks: who is awaited, how long it lasted and how fast it was. `Matching`
puts calls together, `Unfinished` holds the operations that are not done, `NewGroupCalls` the calls of new_group, and
`CallOrder` knows which call usually follows which.
"""

from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field

from ddpquiz.events.event import Forming
from ddpquiz.events.operation import ANY_SOURCE, POINT_TO_POINT, CallPlace, Operation, bus_factor

_MOST_FAILED = 2000  # failed operations that stay in memory
_MOST_OPEN = 1000  # calls of new_group that some rank has not made yet, or that differ
_MOST_PAIRS = 20_000  # different pairs of calls; a script whose shapes change in every step makes new ones without end
_STEADY = 2  # calls that show what a line usually asks for

_Group = tuple[int, str, tuple[int, ...]]  # how often the rank has joined, the group's name, its members


@dataclass(slots=True, eq=False)
class Call:
    """The `number`-th call of one rank. `blocks` are the times during which it blocked the rank.

    `after` is the operation that the rank had called before, in any group. `blocks_script` is True from the moment when
    the script waits for an operation in the background until that wait is over, even if the rank ends meanwhile.
    """

    operation: Operation
    number: int
    issued: float
    began: float | None = None  # when a GPU began with it, if that was measured
    ended: float | None = None
    failed: bool = False  # it ended in an error
    blocks: tuple[tuple[float, float], ...] = ()
    blocks_script: bool = False
    after: Operation | None = None

    @property
    def entered(self) -> float:
        """When the rank was ready: when its GPU began, or else when it called."""
        return self.issued if self.began is None else self.began


@dataclass(slots=True, eq=False)
class Collective:
    """The calls of all members that belong together; `index` counts the operations of the group, from 0.

    `started` is when the last member entered; no collective can complete before. `ended` is when it was done on every
    member.
    """

    group: str
    members: tuple[int, ...]
    index: int
    calls: dict[int, Call] = field(default_factory=dict)  # by rank
    entered_last: int | None = None
    started: float | None = None
    ended: float | None = None

    @property
    def operation(self) -> Operation:
        """What the first member asks for; the others ask for the same unless there is a mismatch.

        For a scatter it is what the root asks for if the root has called, since only the root brings all parts.
        """
        first = self.calls[min(self.calls)].operation
        root = self.calls.get(first.peer) if first.op == "scatter" and first.peer is not None else None
        return root.operation if root else first

    @property
    def op(self) -> str:
        """The operator; `send` for a send with its receive."""
        op = self.operation.op
        return "send" if op in POINT_TO_POINT else op

    @property
    def arrived(self) -> tuple[int, ...]:
        return tuple(rank for rank in self.members if rank in self.calls)

    @property
    def awaited(self) -> tuple[int, ...]:
        return tuple(rank for rank in self.members if rank not in self.calls)

    @property
    def complete(self) -> bool:
        return len(self.calls) == len(self.members)

    @property
    def differs(self) -> bool:
        """True if members call different operators, which may never end although all have entered."""
        ops = {call.operation.op for call in self.calls.values()}
        return len(ops) > 1 and ops != {*POINT_TO_POINT}

    def enter(self, rank: int, call: Call) -> None:
        self.calls[rank] = call
        self.refresh()

    def refresh(self) -> None:
        """Compute the times again after the calls have changed."""
        if not self.complete:
            return
        calls = self.calls
        last = self.entered_last = max(calls, key=lambda rank: (calls[rank].entered, rank))
        self.started = calls[last].entered
        ends = [call.ended for call in calls.values() if call.ended is not None]
        self.ended = max(ends) if len(ends) == len(calls) else None

    @property
    def waits(self) -> dict[int, float]:
        """Seconds for which each member was blocked until the last one entered, unless it left before that.

        The root of a broadcast may.
        """
        started = self.started
        if started is None:
            return {}
        return {
            rank: sum(max(0.0, min(started, end) - start) for start, end in call.blocks if started <= end)
            for rank, call in self.calls.items()
        }

    @property
    def seconds(self) -> float | None:
        """From the last entry to the last end."""
        return None if self.started is None or self.ended is None else self.ended - self.started

    @property
    def algbw(self) -> float | None:
        """Bytes per second that the script sees: the size of the operation divided by its time."""
        seconds = self.seconds
        return self.operation.total_bytes / seconds if seconds and seconds > 1e-9 else None

    @property
    def busbw(self) -> float | None:
        """Bytes per second that a link carries, which can be compared across operations and numbers of ranks."""
        return None if self.algbw is None else self.algbw * bus_factor(self.op, len(self.operation.members))


class Matching:
    """Puts each call into the collective that it belongs to.

    The k-th collective that each member issues in a group is the same one; so is the k-th send from a to b with the
    k-th receive on b from a with the same tag. A receive from any rank is matched when it has ended and its source is
    known.
    """

    def __init__(self) -> None:
        self._joins: Counter[int] = Counter()  # a group that is made again may have the name of an old one
        self._counts: Counter[tuple[_Group, int]] = Counter()  # collectives that a rank has issued in a group
        self._incomplete: dict[tuple[_Group, int], Collective] = {}  # collectives that some member has not entered
        # Sends or receives without their partner
        self._channels: defaultdict[tuple[_Group, int, int, int], deque[Collective]] = defaultdict(deque)
        self._from_any_source: dict[tuple[int, int], _Group] = {}  # receives with an unknown source, by rank and number

    def join(self, rank: int) -> None:
        """Count from zero again for a rank that makes its groups again."""
        self._joins[rank] += 1

    def place(self, rank: int, call: Call) -> tuple[Collective, bool]:
        """Put a call into its collective; return the collective and True if it is a new one."""
        operation = call.operation
        group: _Group = (self._joins[rank], operation.group, operation.members)
        if operation.op in POINT_TO_POINT:
            source, to = _ends(rank, operation)
            channel = self._channels[group, source, to, operation.tag]
            known = self._other_half(channel, rank) if source != ANY_SOURCE else None
            collective = known or self._new_pair(call, group, source, to)
        else:
            index = self._counts[group, rank]
            self._counts[group, rank] += 1
            known = self._incomplete.get((group, index))
            collective = known or Collective(operation.group, operation.members, index)
            self._incomplete[group, index] = collective
        collective.enter(rank, call)
        if collective.complete and operation.op not in POINT_TO_POINT:
            del self._incomplete[group, collective.index]
        return collective, known is None

    def _new_pair(self, call: Call, group: _Group, source: int, to: int) -> Collective:
        pair = Collective(call.operation.group, (source, to), 0)
        if source == ANY_SOURCE:
            self._from_any_source[to, call.number] = group
        else:
            self._channels[group, source, to, call.operation.tag].append(pair)
        return pair

    def resolve(self, collective: Collective, rank: int, call: Call, source: int) -> Collective | None:
        """Match a receive from any rank now that its source is known; return the send if it was issued already.

        The two are one operation from then on.
        """
        group = self._from_any_source.pop((rank, call.number), None)
        if group is None:
            return None
        channel = self._channels[group, source, rank, call.operation.tag]
        send = self._other_half(channel, rank)
        collective.members = (source, rank)
        if send is None:
            channel.append(collective)
            return None
        send.enter(rank, call)
        collective.calls = send.calls
        collective.refresh()
        return send

    @staticmethod
    def _other_half(channel: deque[Collective], rank: int) -> Collective | None:
        return channel.popleft() if channel and rank not in channel[0].calls else None


def _ends(rank: int, operation: Operation) -> tuple[int, int]:
    peer = ANY_SOURCE if operation.peer is None or operation.peer < 0 else operation.peer
    return (rank, peer) if operation.op == "send" else (peer, rank)


class Unfinished:
    """Operations that some rank is in or has not entered yet, and those that failed on all ranks that had entered."""

    def __init__(self) -> None:
        self.open: dict[Collective, None] = {}  # in the order of their first calls
        self.failed: dict[Collective, None] = {}

    @property
    def in_order(self) -> list[Collective]:
        """All of them, in the order of their first calls."""
        return sorted(
            {**self.failed, **self.open}, key=lambda collective: min(call.issued for call in collective.calls.values())
        )

    def fail(self, collective: Collective) -> None:
        self.open.pop(collective, None)
        self.failed[collective] = None
        if len(self.failed) > _MOST_FAILED:
            del self.failed[next(iter(self.failed))]

    def drop_rank(self, rank: int) -> None:
        """Remove the operations that a rank had entered before it was restarted."""
        for collectives in (self.open, self.failed):
            for collective in [collective for collective in collectives if rank in collective.calls]:
                del collectives[collective]


class NewGroupCalls:
    """The calls of new_group, which all ranks must make for the same groups in the same order.

    The k-th calls of all ranks belong together, and are dropped once all ranks have asked for the same group.

    `open` are those that are left, by number and rank; a call that only the members of its group make does not count.
    `inside` are the ranks that wait in a call, or did when they ended.
    """

    def __init__(self) -> None:
        self.inside: set[int] = set()
        self.open: dict[int, dict[int, Forming]] = {}
        self._counts: Counter[int] = Counter()  # calls of a rank

    def add(self, event: Forming, ranks: int) -> None:
        """Count a call of a run of some ranks when it begins."""
        if event.done:
            self.inside.discard(event.rank)
            return
        self.inside.add(event.rank)
        if not event.members:
            return
        number = self._counts[event.rank]
        self._counts[event.rank] += 1
        if number not in self.open and len(self.open) >= _MOST_OPEN:
            return
        calls = self.open.setdefault(number, {})
        calls[event.rank] = event
        if len(calls) == ranks and len({call.members for call in calls.values()}) == 1:
            del self.open[number]

    def restart(self, rank: int) -> None:
        """Note that a rank begins its script again."""
        del self._counts[rank]
        self.inside.discard(rank)
        for calls in self.open.values():
            calls.pop(rank, None)


# The first collective that a line called, and how many collectives of the group each rank had called when it reached it
_CallSite = tuple[Operation, dict[int, int]]


@dataclass
class _GroupSites:
    """The lines that called collectives of one group, and how many collectives each rank called."""

    sites: dict[CallPlace, _CallSite] = field(default_factory=dict)
    calls: Counter[int] = field(default_factory=Counter)


_FEW_RANKS = 3  # that must have called a line for its pattern to show


class CallOrder:
    """How often ranks called one operation right after another in a whole job, so that a call out of order is seen."""

    def __init__(self) -> None:
        self._operations: Counter[tuple[Operation | None, Operation]] = Counter()
        self._places: Counter[tuple[CallPlace | None, CallPlace]] = Counter()
        self._calls: Counter[CallPlace] = Counter()
        self._in_place: defaultdict[CallPlace, Counter[Operation]] = defaultdict(Counter)
        self._requests = 0  # different operations by place
        self._last: dict[int, Operation] = {}
        self._peers: defaultdict[CallPlace, dict[int, set[int | None]]] = defaultdict(dict)
        self._groups: defaultdict[tuple[str, tuple[int, ...]], _GroupSites] = defaultdict(
            _GroupSites
        )  # by name and members

    def add(self, rank: int, operation: Operation) -> Operation | None:
        """Count a call, and return what the rank called before."""
        before, self._last[rank] = self._last.get(rank), operation
        if len(self._operations) < _MOST_PAIRS:
            self._operations[before, operation] += 1
        if len(self._places) < _MOST_PAIRS:
            self._places[before.place if before else None, operation.place] += 1
        self._calls[operation.place] += 1
        if operation.op not in POINT_TO_POINT:
            self._note_site(rank, operation)
        elif operation.place in self._peers or len(self._peers) < _MOST_PAIRS:
            self._peers[operation.place].setdefault(rank, set()).add(operation.peer)
        requests = self._in_place[operation.place]
        if operation in requests or self._requests < _MOST_PAIRS:
            self._requests += operation not in requests
            requests[operation] += 1
        return before

    def _note_site(self, rank: int, operation: Operation) -> None:
        group = self._groups[operation.group, operation.members]
        if operation.line and (operation.place in group.sites or len(group.sites) < _MOST_PAIRS):
            group.sites.setdefault(operation.place, (operation, {}))[1].setdefault(rank, group.calls[rank])
        group.calls[rank] += 1

    def restart(self, rank: int) -> None:
        """Note that a rank begins its script again."""
        self._last.pop(rank, None)

    def usual_peer(self, rank: int, operation: Operation) -> int | None:
        """To or from whom a rank would send or receive in a line if it did as all others: the rank so far from its own.

        None if the line has no such pattern, if fewer than two others called it, or if this rank follows it.
        """
        peers, world = self._peers.get(operation.place, {}), len(operation.members)
        single = {each: next(iter(those)) for each, those in peers.items() if len(those) == 1}
        steps = {(peer - each) % world for each, peer in single.items() if each != rank and peer is not None}
        if len(single) < len(peers) or len(peers) < _FEW_RANKS or len(steps) != 1:
            return None
        usual = (rank + steps.pop()) % world
        return usual if usual not in (rank, operation.peer) and operation.members == tuple(range(world)) else None

    def follows(self, operation: Operation, before: Operation | None) -> int:
        """How often exactly this operation was called right after another."""
        return self._operations[before, operation]

    def place_follows(self, operation: Operation, before: Operation | None) -> int:
        """How often any operation in that line was called right after one in the other line."""
        return self._places[before.place if before else None, operation.place]

    def calls_in(self, place: CallPlace) -> int:
        """How often the operator of a line was called."""
        return self._calls[place]

    def sites(self, group: str, members: tuple[int, ...]) -> list[_CallSite]:
        """The lines that called collectives of a group, in the order of their first calls."""
        return list(self._groups[group, members].sites.values())

    def successors(self, operation: Operation) -> list[Operation]:
        """The operations that were called right after one, the most frequent first."""
        later = Counter({after: count for (before, after), count in self._operations.items() if before == operation})
        return [after for after, _ in later.most_common()]

    def usual_request(self, operation: Operation, calls: int) -> Operation | None:
        """What its line had always asked for before, if an operation has another shape or dtype now.

        `calls` are those of the operation that are in question; None if it was called more often, or if the line has
        asked for different tensors before.
        """
        requests = self._in_place[operation.place]
        alike = [
            known
            for known in requests
            if known != operation
            and known._replace(shapes=operation.shapes, dtype=operation.dtype, bytes=operation.bytes) == operation
        ]
        if len(alike) != 1 or requests[alike[0]] < _STEADY or requests[operation] > calls:
            return None
        return alike[0]
