"""In which order each stage of a pipeline does its work, for each schedule."""

from collections.abc import Iterator
from typing import NamedTuple

from ddpquiz.planning.layout import PipelineSchedule


class StagePiece(NamedTuple):
    """A forward (F), a backward (B: whole, or only input gradients where W exists) or weight gradients (W).

    `stage` counts along the model, over all chunks. `way` is 1 for the micro-batches that run from the last rank to the
    first.
    """

    kind: str
    micro_batch: int
    stage: int
    way: int = 0


Task = tuple[StagePiece, ...]  # what runs as one: a piece, or a forward beside a backward


def order(schedule: PipelineSchedule, p: int, m: int, chunks: int = 1) -> list[list[Task]]:
    """Return the tasks of each rank in order, for p ranks and m micro-batches."""
    match schedule:
        case PipelineSchedule.GPIPE:
            ranks: list[Iterator[StagePiece]] = [_gpipe(rank, m) for rank in range(p)]
        case PipelineSchedule.ONE_F_ONE_B:
            ranks = [_one_f_one_b(rank, p, m) for rank in range(p)]
        case PipelineSchedule.INTERLEAVED:
            ranks = [_interleaved(rank, p, m, chunks) for rank in range(p)]
        case PipelineSchedule.ZERO_BUBBLE:
            ranks = [_zero_bubble(rank, p, m) for rank in range(p)]
        case PipelineSchedule.DUALPIPE:
            return [list(_DualPipe(rank, p, m).tasks()) for rank in range(p)]
    return [[(piece,) for piece in pieces] for pieces in ranks]


def _gpipe(rank: int, m: int) -> Iterator[StagePiece]:
    """All forwards, then all backwards (arXiv 1811.06965)."""
    yield from (StagePiece("F", i, rank) for i in range(m))
    yield from (StagePiece("B", i, rank) for i in range(m))


def _one_f_one_b(rank: int, p: int, m: int) -> Iterator[StagePiece]:
    """P - 1 - rank forwards to fill the stages below, then one forward and one backward in turn (arXiv 2104.04473)."""
    ahead = min(p - 1 - rank, m)
    yield from (StagePiece("F", i, rank) for i in range(ahead))
    for i in range(m):
        if ahead + i < m:
            yield StagePiece("F", ahead + i, rank)
        yield StagePiece("B", i, rank)


def _interleaved(rank: int, p: int, m: int, chunks: int) -> Iterator[StagePiece]:
    """The same with several chunks a rank: p micro-batches in the first chunk, then in the next (arXiv 2104.04473)."""
    total = m * chunks

    def forward(number: int) -> StagePiece:
        chunk = number // p % chunks
        return StagePiece("F", number // (p * chunks) * p + number % p, chunk * p + rank)

    def backward(number: int) -> StagePiece:
        chunk = chunks - 1 - number // p % chunks
        return StagePiece("B", number // (p * chunks) * p + number % p, chunk * p + rank)

    ahead = min(2 * (p - 1 - rank) + (chunks - 1) * p, total)
    yield from map(forward, range(ahead))
    for number in range(total):
        if ahead + number < total:
            yield forward(ahead + number)
        yield backward(number)


def _zero_bubble(rank: int, p: int, m: int) -> Iterator[StagePiece]:
    """1F1B whose weight gradients wait: rank r keeps r of them, so that all ranks store p (arXiv 2401.10241, ZB-H1)."""
    ahead, done = min(p - 1 - rank, m), 0
    yield from (StagePiece("F", i, rank) for i in range(ahead))
    for i in range(m):
        forwards_left = ahead + i < m
        if forwards_left:
            yield StagePiece("F", ahead + i, rank)
        yield StagePiece("B", i, rank)
        if not forwards_left or i + 1 - done > rank:
            yield StagePiece("W", done, rank)
            done += 1
    yield from (StagePiece("W", i, rank) for i in range(done, m))


class _DualPipe:
    """DualPipe's eight phases on one rank (arXiv 2412.19437, figure 5); half of the micro-batches run each way.

    Way 0 is the one that enters the pipeline nearer to this rank.
    """

    def __init__(self, rank: int, p: int, m: int) -> None:
        self._rank, self._p, self._half = rank, p, m // 2
        self._inner = min(rank, p - 1 - rank)  # how many ranks are outside of this one
        self._counts = {("F", 0): 0, ("F", 1): 0, ("B", 0): 0, ("B", 1): 0}
        self._waiting: list[StagePiece] = []  # weight gradients that are still to do

    def tasks(self) -> Iterator[Task]:
        half, inner, middle = self._p // 2, self._inner, self._inner == self._p // 2 - 1
        for _ in range((half - inner - 1) * 2):
            yield (self._piece("F", 0),)
        for _ in range(inner + 1):
            yield (self._piece("F", 0),)
            yield (self._piece("F", 1),)
        for _ in range(half - inner - 1):
            yield from self._split(1)
            yield self._weight()
            yield (self._piece("F", 1),)
        for number in range(self._half - self._p + inner + 1):
            if number == 0 and middle:
                yield (self._piece("F", 0),)
                yield from self._whole(1)
            else:
                yield self._beside(0, 1)
            yield self._beside(1, 0)
        for _ in range(half - inner - 1):
            yield from self._whole(1)
            yield self._beside(1, 0)
        yield from self._drain(half, inner)

    def _drain(self, half: int, inner: int) -> Iterator[Task]:
        """Yield the last three phases, in which weight gradients wait until nothing else can be done."""
        steps, splits = inner + 1, False
        for number in range(steps):
            splits |= number == steps // 2 and inner % 2 == 1
            yield from self._split(1) if splits else self._whole(1)
            splits |= number == steps // 2 and inner % 2 == 0
            yield from self._split(0) if splits else self._whole(0)
        for _ in range(half - inner - 1):
            yield self._weight()
            yield from self._split(0)
        while self._waiting:
            yield self._weight()

    def _piece(self, kind: str, way: int) -> StagePiece:
        number = self._counts[kind, way]
        self._counts[kind, way] += 1
        direction = way ^ (self._rank >= self._p // 2)
        stage = self._p - 1 - self._rank if direction else self._rank
        return StagePiece(kind, number, stage, direction)

    def _beside(self, forward: int, backward: int) -> Task:
        ahead, back = self._piece("F", forward), self._piece("B", backward)
        return (ahead, back, back._replace(kind="W"))

    def _whole(self, way: int) -> Iterator[Task]:
        piece = self._piece("B", way)
        yield (piece, piece._replace(kind="W"))

    def _split(self, way: int) -> Iterator[Task]:
        piece = self._piece("B", way)
        self._waiting.append(piece._replace(kind="W"))
        yield (piece,)

    def _weight(self) -> Task:
        return (self._waiting.pop(0),)
