"""One operation across its ranks: which calls belong to it, who is awaited, how long it lasted and how fast it was."""

from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field

from ddpquiz.analysis.operation import ANYBODY, POINT_TO_POINT, Operation, bus_factor

Group = tuple[int, str, tuple[int, ...]]  # how often the rank has joined, the group's name, its members


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
        self._counts: Counter[tuple[Group, int]] = Counter()  # collectives that a rank has issued in a group
        self._incomplete: dict[tuple[Group, int], Collective] = {}  # collectives that some member has not entered
        # Sends or receives without their partner
        self._channels: defaultdict[tuple[Group, int, int, int], deque[Collective]] = defaultdict(deque)
        self._from_anybody: dict[tuple[int, int], Group] = {}  # receives with an unknown source, by rank and number

    def join(self, rank: int) -> None:
        """Count from zero again for a rank that makes its groups again."""
        self._joins[rank] += 1

    def place(self, rank: int, call: Call) -> tuple[Collective, bool]:
        """Put a call into its collective; return the collective and True if it is a new one."""
        operation = call.operation
        group: Group = (self._joins[rank], operation.group, operation.members)
        if operation.op in POINT_TO_POINT:
            source, to = _ends(rank, operation)
            channel = self._channels[group, source, to, operation.tag]
            found = self._other_half(channel, rank) if source != ANYBODY else None
            collective = found or self._new_pair(call, group, source, to)
        else:
            index = self._counts[group, rank]
            self._counts[group, rank] += 1
            found = self._incomplete.get((group, index))
            collective = found or Collective(operation.group, operation.members, index)
            self._incomplete[group, index] = collective
        collective.enter(rank, call)
        if collective.complete and operation.op not in POINT_TO_POINT:
            del self._incomplete[group, collective.index]
        return collective, found is None

    def _new_pair(self, call: Call, group: Group, source: int, to: int) -> Collective:
        made = Collective(call.operation.group, (source, to), 0)
        if source == ANYBODY:
            self._from_anybody[to, call.number] = group
        else:
            self._channels[group, source, to, call.operation.tag].append(made)
        return made

    def resolve(self, collective: Collective, rank: int, call: Call, source: int) -> Collective | None:
        """Match a receive from any rank now that its source is known; return the send if it was issued already.

        The two are one operation from then on.
        """
        group = self._from_anybody.pop((rank, call.number), None)
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
    peer = ANYBODY if operation.peer is None or operation.peer < 0 else operation.peer
    return (rank, peer) if operation.op == "send" else (peer, rank)
