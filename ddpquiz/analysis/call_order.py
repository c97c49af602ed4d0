"""Which operation ranks usually call after which, so that a call out of order is recognised."""

from collections import Counter

from ddpquiz.analysis.operation import Operation

LIMIT = 20_000  # different pairs; a script whose shapes change in every step makes new ones without end

Place = tuple[str, int, str]


class CallOrder:
    """Counts how often ranks called one operation right after another, in a whole job."""

    def __init__(self) -> None:
        self._operations: Counter[tuple[Operation | None, Operation]] = Counter()
        self._places: Counter[tuple[Place | None, Place]] = Counter()
        self._calls: Counter[Place] = Counter()
        self._last: dict[int, Operation] = {}

    def add(self, rank: int, operation: Operation) -> Operation | None:
        """Count a call, and return what the rank called before."""
        before, self._last[rank] = self._last.get(rank), operation
        if len(self._operations) < LIMIT:
            self._operations[before, operation] += 1
        if len(self._places) < LIMIT:
            self._places[before.place if before else None, operation.place] += 1
        self._calls[operation.place] += 1
        return before

    def restart(self, rank: int) -> None:
        """Note that a rank begins its script again."""
        self._last.pop(rank, None)

    def follows(self, operation: Operation, before: Operation | None) -> int:
        """Return how often exactly this operation was called right after another."""
        return self._operations[before, operation]

    def place_follows(self, operation: Operation, before: Operation | None) -> int:
        """Return how often any operation in that line was called right after one in the other line."""
        return self._places[before.place if before else None, operation.place]

    def calls_in(self, place: Place) -> int:
        """Return how often the operator of a line was called."""
        return self._calls[place]

    def successors(self, operation: Operation) -> list[Operation]:
        """Return the operations that were called right after one, the most frequent first."""
        found = Counter({after: count for (before, after), count in self._operations.items() if before == operation})
        return [after for after, _ in found.most_common()]
