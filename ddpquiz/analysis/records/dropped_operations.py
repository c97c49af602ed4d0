"""Which operations all files of a job still hold, so that the k-th one of each member of a group is the same one.

Ranks continue their files at different times. What one rank no longer holds is left out on the others.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from ddpquiz.analysis.events import Dropped, Ended, Event, Issued, Joining, OperationEvent
from ddpquiz.analysis.operation import ANYBODY, POINT_TO_POINT, Operation, Ranks
from ddpquiz.analysis.records.rank_record import Life, RankRecord

Generation = tuple[
    int, int
]  # how often the ranks were restarted, and how often they have formed the default group since
Channel = tuple[str, Ranks, int, int]  # group, its members; source and destination, ANYBODY for collectives
Place = tuple[
    Generation, Channel, int
]  # an operation is the n-th in its channel; its other members have the same place


class DroppedOperations:
    """Leaves out the operations that some rank no longer holds; `left_out` counts them and those of no file."""

    def __init__(self, records: Sequence[RankRecord]) -> None:
        self._generation = max((_first_generation(record) for record in records), default=(0, 0))
        self._dropped: dict[int, Counter[Channel]] = {}
        self._floor: Counter[Channel] = Counter()
        for record in records:
            dropped = self._dropped[record.rank] = Counter[Channel]()
            if _first_generation(record) == self._generation:
                dropped.update({_channel_of(each): each.count for each in record.lives[0].dropped})
            self._floor |= dropped  # the highest count of each channel
        self.left_out = sum(each.count for record in records for each in record.lives[0].dropped)

    def lives(self, record: RankRecord) -> list[Life]:
        """Return the lives of a rank that all ranks hold at least in part."""
        return [life for life in record.lives if life.started.restart >= self._generation[0]]

    def remaining(self, record: RankRecord, life: Life) -> Iterator[tuple[Event, Place | None]]:
        """Yield the events of a life that are not left out, each Issued with its place."""
        sources = {event.number: event.source for event in life.events if isinstance(event, Ended)}
        generation = life.started.restart, 0
        issued = self._issued_before(record.rank, generation)
        numbers: set[int] = set()
        for event in life.events:
            place = None
            if isinstance(event, Joining) and not event.done:
                generation = generation[0], generation[1] + 1
                issued = self._issued_before(record.rank, generation)
            elif isinstance(event, Issued):
                channel = _channel(record.rank, event.operation, sources.get(event.number))
                if channel is not None:
                    place = generation, channel, issued[channel]
                    issued[channel] += 1
                if not self._is_held_by_all(generation, place):
                    self.left_out += 1
                    continue
                numbers.add(event.number)
            elif isinstance(event, OperationEvent) and event.number not in numbers:
                continue
            yield event, place

    def _issued_before(self, rank: int, generation: Generation) -> Counter[Channel]:
        """Count what a rank issued in a generation before the first operation that its files hold."""
        return Counter(self._dropped[rank]) if generation == self._generation else Counter()

    def _is_held_by_all(self, generation: Generation, place: Place | None) -> bool:
        if generation != self._generation:
            return generation > self._generation
        return place is None or place[2] >= self._floor[place[1]]


def _first_generation(record: RankRecord) -> Generation:
    """Return the generation in which the files of a rank begin."""
    life = record.lives[0]
    return life.started.restart, sum(isinstance(each, Joining) and not each.done for each in life.repeated)


def _channel(rank: int, operation: Operation, source: int | None = None) -> Channel | None:
    """Return the channel of an operation; None for a receive from any rank whose source is not known yet."""
    if operation.op not in POINT_TO_POINT:
        return operation.group, operation.members, ANYBODY, ANYBODY
    peer = operation.peer if source is None else source
    if peer is None:
        return None
    return operation.group, operation.members, *((rank, peer) if operation.op == "send" else (peer, rank))


def _channel_of(dropped: Dropped) -> Channel:
    if not dropped.op or dropped.peer is None:
        return dropped.group, dropped.members, ANYBODY, ANYBODY
    ends = (dropped.rank, dropped.peer) if dropped.op == "send" else (dropped.peer, dropped.rank)
    return dropped.group, dropped.members, *ends
