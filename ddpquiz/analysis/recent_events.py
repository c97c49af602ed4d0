"""The last events of a run of any length, to step back through."""

from ddpquiz.analysis.collective import Call, Collective, Matching
from ddpquiz.analysis.events import Ended, Event, Issued, Joining, OperationEvent, Started

LIMIT = 20_000


class RecentEvents:
    """The first event of a run and the last ones, in bounded memory."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.events: list[Event] = []
        self._limit = limit

    def add(self, event: Event) -> None:
        self.events.append(event)
        if len(self.events) > 2 * self._limit:
            self._cut()

    def _cut(self) -> None:
        """Drop the older events, and calls whose partners are among them.

        Otherwise the k-th call of a rank would be matched with an earlier or later call of another rank.
        """
        cut, dropped = len(self.events) - self._limit, set[tuple[int, int]]()
        left = self.events[:1]
        met = self._meetings()
        for number, event in enumerate(self.events):
            if isinstance(event, Issued):  # a restarted rank may use the number of an old call again
                change = dropped.add if min(met[number]) < cut else dropped.discard
                change((event.rank, event.number))
            if number >= cut and not (isinstance(event, OperationEvent) and (event.rank, event.number) in dropped):
                left.append(event)
        self.events[:] = left

    def _meetings(self) -> dict[int, list[int]]:
        """Return for each call, by its place among the events, the places of all calls of the same operation."""
        matching, places = Matching(), dict[Call, int]()
        calls: dict[tuple[int, int], tuple[Collective, Call]] = {}
        found: list[tuple[int, Collective]] = []
        for number, event in enumerate(self.events):
            match event:
                case Joining(rank=rank, done=False):
                    matching.join(rank)
                case Started(rank=rank, restart=restart) if restart:
                    matching.join(rank)
                case Issued(rank=rank):
                    call = Call(event.operation, event.number, event.time)
                    collective, _ = matching.place(rank, call)
                    calls[rank, event.number], places[call] = (collective, call), number
                    found.append((number, collective))
                case Ended(rank=rank, source=int(source)) if (rank, event.number) in calls:
                    collective, call = calls[rank, event.number]
                    matching.resolve(collective, rank, call, source)
        return {number: [places[call] for call in collective.calls.values()] for number, collective in found}
