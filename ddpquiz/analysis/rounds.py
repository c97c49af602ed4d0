"""The longest chain of dependent messages among ranks: how many rounds an algorithm needs, whatever the network."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable

from ddpquiz.analysis.operation import ANYBODY, Operation

# rank, operation, when it was called, when its result was there (None: never), and who sent to a receive from any rank
RankCall = tuple[int, Operation, float, float | None, int | None]

Group = tuple[tuple[int, ...], str]  # members and name


def count_rounds(calls: Iterable[RankCall]) -> int:
    """Return the number of rounds, if in one round each rank can send one message and receive one.

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
        self._entered: defaultdict[Group, Counter[int]] = defaultdict(Counter)  # collectives that each rank has entered
        self._rounds: Counter[tuple[Group, int]] = Counter()  # of each collective of a group, by its place

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
        self._messages[rank, operation.peer if operation.peer is not None else ANYBODY].append(at)

    def _receive(self, rank: int, operation: Operation, source: int | None) -> None:
        sender = source if source is not None else operation.peer
        waiting = self._messages.get((sender if sender is not None else ANYBODY, rank))
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
