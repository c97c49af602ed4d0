"""Which operation ranks usually call after which, so that a call out of order is recognised."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from ddpquiz.analysis.operation import POINT_TO_POINT, Operation

LIMIT = 20_000  # different pairs; a script whose shapes change in every step makes new ones without end

STEADY = 2  # calls that show what a line usually asks for

Place = tuple[str, int, str]
Group = tuple[str, tuple[int, ...]]  # its name and its members
# The first collective that a line called, and how many collectives of the group each rank had called when it reached it
CallSite = tuple[Operation, dict[int, int]]


@dataclass
class _GroupCalls:
    """The lines that called collectives of one group, and how many collectives each rank called."""

    sites: dict[Place, CallSite] = field(default_factory=dict)
    calls: Counter[int] = field(default_factory=Counter)


class CallOrder:
    """Counts how often ranks called one operation right after another, in a whole job."""

    def __init__(self) -> None:
        self._operations: Counter[tuple[Operation | None, Operation]] = Counter()
        self._places: Counter[tuple[Place | None, Place]] = Counter()
        self._calls: Counter[Place] = Counter()
        self._in_place: defaultdict[Place, Counter[Operation]] = defaultdict(Counter)
        self._requests = 0  # different operations by place
        self._last: dict[int, Operation] = {}
        self._groups: defaultdict[Group, _GroupCalls] = defaultdict(_GroupCalls)

    def add(self, rank: int, operation: Operation) -> Operation | None:
        """Count a call, and return what the rank called before."""
        before, self._last[rank] = self._last.get(rank), operation
        if len(self._operations) < LIMIT:
            self._operations[before, operation] += 1
        if len(self._places) < LIMIT:
            self._places[before.place if before else None, operation.place] += 1
        self._calls[operation.place] += 1
        if operation.op not in POINT_TO_POINT:
            self._note_site(rank, operation)
        requests = self._in_place[operation.place]
        if operation in requests or self._requests < LIMIT:
            self._requests += operation not in requests
            requests[operation] += 1
        return before

    def _note_site(self, rank: int, operation: Operation) -> None:
        group = self._groups[operation.group, operation.members]
        if operation.line and (operation.place in group.sites or len(group.sites) < LIMIT):
            group.sites.setdefault(operation.place, (operation, {}))[1].setdefault(rank, group.calls[rank])
        group.calls[rank] += 1

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

    def sites(self, group: str, members: tuple[int, ...]) -> list[CallSite]:
        """Return the lines that called collectives of a group, in the order of their first calls."""
        return list(self._groups[group, members].sites.values())

    def successors(self, operation: Operation) -> list[Operation]:
        """Return the operations that were called right after one, the most frequent first."""
        found = Counter({after: count for (before, after), count in self._operations.items() if before == operation})
        return [after for after, _ in found.most_common()]

    def usual_request(self, operation: Operation, calls: int) -> Operation | None:
        """Return what its line had always asked for before, if an operation has another shape or dtype now.

        `calls` are those of the operation that are in question; None if it was called more often, or if the line has
        asked for different tensors before.
        """
        others = [
            (other, count)
            for other, count in self._in_place[operation.place].items()
            if other != operation
            and other._replace(shapes=operation.shapes, dtype=operation.dtype, bytes=operation.bytes) == operation
        ]
        if len(others) != 1 or others[0][1] < STEADY or self._in_place[operation.place][operation] > calls:
            return None
        return others[0][0]
