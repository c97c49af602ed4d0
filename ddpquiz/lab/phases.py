"""What each rank did between two lines `phase: NAME`: the calls, bytes, rounds and labels that budgets limit.

The rounds of an algorithm are its longest chain of dependent messages, whatever the network.
"""

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ddpquiz.events import event as events
from ddpquiz.events.operation import ANY_SOURCE, POINT_TO_POINT, Operation

_END = "end"  # the name that closes a phase
_VALUE = re.compile(r"([A-Za-z_]\w{0,39})=(-?\d{1,15}(?:\.\d{1,15})?(?:e[+-]?\d{1,3})?)")


@dataclass(slots=True)
class PhaseCall:
    """An operation that a rank called in a phase; `done` is when the script had its result, None if it never waited."""

    operation: Operation
    number: int
    issued: float
    done: float | None = None
    source: int | None = None  # who sent to a receive from any rank


@dataclass(slots=True)
class Phase:
    """One phase on one rank: the `index`-th of this name, from 0. `values` are those on its first and last line."""

    rank: int
    name: str
    index: int
    seed: int | None
    began: float
    values: dict[str, float] = field(default_factory=dict)
    calls: list[PhaseCall] = field(default_factory=list)
    labels: list[tuple[str, float]] = field(default_factory=list)
    ended: float | None = None
    rounds: int = 0

    def measures(self) -> dict[str, float]:
        """What budgets may limit, by name.

        A new name needs a line in `MEASURES` of `curriculum/budget_rule.py` and in `UNITS` of `lab/verdict.py`, too.
        """
        counts = Counter(call.operation.op for call in self.calls)
        found: dict[str, float] = dict(self.values)
        found.update({f"calls_{op}": count for op, count in counts.items()})
        found.update(
            sent=sum(call.operation.bytes_sent_by(self.rank) for call in self.calls),
            received=sum(bytes_received(call.operation, self.rank) for call in self.calls),
            calls=len(self.calls),
            collectives=sum(call.operation.op not in POINT_TO_POINT for call in self.calls),
            destinations=len({call.operation.peer for call in self.calls if call.operation.op == "send"}),
            rounds=self.rounds,
            in_flight=self._most_in_flight(),
            overlapped=sum(self._overlaps(call) for call in self.calls),
        )
        return found

    def _overlaps(self, call: PhaseCall) -> bool:
        return any(call.issued < time and (call.done is None or time < call.done) for _, time in self.labels)

    def _most_in_flight(self) -> int:
        changes = [(call.issued, 1) for call in self.calls if call.operation.in_background]
        changes += [(call.done, -1) for call in self.calls if call.operation.in_background and call.done is not None]
        now = most = 0
        for _, change in sorted(changes):
            now += change
            most = max(most, now)
        return most


def find_phases(recorded: Iterable[events.Event]) -> list[Phase]:
    """The phases of all ranks, in the order in which they began."""
    of_rank: dict[int, _RankPhases] = {}
    for event in sorted(_lines_in_order(recorded), key=events.when):
        if isinstance(event, events.RankEvent):
            of_rank.setdefault(event.rank, _RankPhases(event.rank)).add(event)
    found = [phase for each in of_rank.values() for phase in each.found]
    _set_rounds(found)
    return sorted(found, key=lambda phase: phase.began)


def _lines_in_order(recorded: Iterable[events.Event]) -> Iterator[events.Event]:
    """Yield the events; a labeled line is not earlier than those before it.

    On a busy machine the report of a write may come so late that the line has the time at which it was read.
    """
    latest: dict[int, float] = {}
    for event in recorded:
        if isinstance(event, events.Output) and event.label and event.time < latest.get(event.rank, 0.0):
            yield replace(event, time=latest[event.rank])
            continue
        if isinstance(event, events.Output) and event.label:
            latest[event.rank] = event.time
        yield event


def bytes_received(operation: Operation, rank: int) -> int:
    """The bytes that a member receives for the operation, by the algorithms of `bytes_sent_by`."""
    op, others = operation.op, len(operation.members) - 1
    if op == "recv":
        return operation.bytes
    if op in ("send", "barrier"):
        return 0
    if op == "broadcast":
        return 0 if rank == operation.peer else operation.bytes
    if op == "reduce":
        return operation.bytes if others and rank != _first_of_chain(operation) else 0
    if op == "gather":
        return others * operation.bytes if rank == operation.peer else 0
    if op == "scatter":
        return 0 if rank == operation.peer else operation.bytes
    return operation.bytes_sent_by(rank)


def _first_of_chain(operation: Operation) -> int:
    """The member farthest from the root of a reduce, which receives nothing."""
    members = operation.members
    return members[(members.index(operation.peer) + 1) % len(members)] if operation.peer in members else -1


class _RankPhases:
    """The phases of one rank, from its events in the order of time."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.found: list[Phase] = []
        self._counts: Counter[str] = Counter()
        self._calls: dict[int, PhaseCall] = {}
        self._current: Phase | None = None
        self._seed: int | None = None

    def add(self, event: events.Event) -> None:
        match event:
            case events.Output(label=str(label), value=str(value), time=time):
                self._print(label, value, time)
            case events.Issued(number=number, time=time) if self._current:
                self._calls[number] = PhaseCall(event.operation, number, time)
                self._current.calls.append(self._calls[number])
            case events.Waited(number=number, time=time) if number in self._calls:
                self._calls[number].done = time
            case events.Ended(number=number, time=time, source=source) if number in self._calls:
                self._calls[number].source = source
                if not self._calls[number].operation.asynchronous:  # otherwise the script has it when it has waited
                    self._calls[number].done = time

    def _print(self, label: str, value: str, time: float) -> None:
        if label == "phase":
            self._begin(*_read(value), time)
        elif self._current:
            self._current.labels.append((label, time))
        elif label == "seed" and value.isdecimal():
            self._seed = int(value)

    def _begin(self, name: str, values: dict[str, float], time: float) -> None:
        """Begin a phase, and end the one before; its values are then complete."""
        last = self._current
        if last:
            last.ended = time
        if name == _END:
            if last:
                last.values.update(values)
            self._current = None
            return
        self._current = Phase(self.rank, name, self._counts[name], self._seed, time, values)
        self._counts[name] += 1
        self.found.append(self._current)


def _read(value: str) -> tuple[str, dict[str, float]]:
    """Return name and values of a line such as `phase: ring bytes=400`. A name may have several words."""
    values = {name: float(number) for name, number in _VALUE.findall(value)}
    return " ".join(word for word in value.split() if not _VALUE.fullmatch(word)), values


def _set_rounds(found: Sequence[Phase]) -> None:
    together: defaultdict[tuple[str, int], list[Phase]] = defaultdict(list)
    for phase in found:
        together[phase.name, phase.index].append(phase)
    for phases in together.values():
        calls: Mapping[int, Sequence[PhaseCall]] = {phase.rank: phase.calls for phase in phases}
        rounds = count_rounds(
            (rank, call.operation, call.issued, call.done, call.source) for rank in calls for call in calls[rank]
        )
        for phase in phases:
            phase.rounds = rounds


# rank, operation, when it was called, when its result was there (None: never), and who sent to a receive from any rank
RankCall = tuple[int, Operation, float, float | None, int | None]

_Group = tuple[tuple[int, ...], str]  # members and name


def count_rounds(calls: Iterable[RankCall]) -> int:
    """The number of rounds, if in one round each rank can send one message and receive one.

    A message is sent in the round after the last one that its sender had received by then, and after the sender's
    previous message. A collective counts as one round of all its members.
    """
    steps: list[tuple[float, int, bool, Operation, int | None]] = []
    for rank, operation, issued, done, source in calls:
        if operation.op == "recv":
            if done is not None:
                steps.append((done, rank, True, operation, source))
        else:
            steps.append((issued, rank, False, operation, source))
    return _Clocks().run(sorted(steps, key=lambda step: step[:3]))


class _Clocks:
    """For each rank the round of the last message that it sent, that it received, and of all that it knows."""

    def __init__(self) -> None:
        self.sent: Counter[int] = Counter()
        self.received: Counter[int] = Counter()
        self.known: Counter[int] = Counter()
        self._messages: defaultdict[tuple[int, int], deque[int]] = defaultdict(deque)
        # collectives that each rank has entered
        self._entered: defaultdict[_Group, Counter[int]] = defaultdict(Counter)
        self._rounds: Counter[tuple[_Group, int]] = Counter()  # of each collective of a group, by its place

    def run(self, steps: list[tuple[float, int, bool, Operation, int | None]]) -> int:
        for _, rank, is_receive, operation, source in steps:
            if is_receive:
                self._receive(rank, operation, source)
            elif operation.op == "send":
                self._send(rank, operation)
            else:
                self._collective(rank, operation)
        return max([0, *self.known.values(), *self.sent.values()])

    def _send(self, rank: int, operation: Operation) -> None:
        at = 1 + max(self.sent[rank], self.known[rank])
        self.sent[rank] = at
        self._messages[rank, operation.peer if operation.peer is not None else ANY_SOURCE].append(at)

    def _receive(self, rank: int, operation: Operation, source: int | None) -> None:
        sender = source if source is not None else operation.peer
        waiting = self._messages.get((sender if sender is not None else ANY_SOURCE, rank))
        at = max(waiting.popleft() if waiting else 1, self.received[rank] + 1)
        self.received[rank] = at
        self.known[rank] = max(self.known[rank], at)

    def _collective(self, rank: int, operation: Operation) -> None:
        """Let a member enter its next collective of a group: that is one round for all members, after the last one."""
        group = operation.members, operation.group
        entered = self._entered[group]
        entered[rank] += 1
        place = entered[rank]
        at = max(self._rounds[group, place], max(self.known[rank], self.sent[rank]) + 1)
        self._rounds[group, place] = at
        for member in operation.members:
            if entered[member] >= place:
                self.known[member] = max(self.known[member], at)
