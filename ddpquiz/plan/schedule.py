"""A pipeline rank by rank: the order of work in each schedule, and a simulation of when it happens.

A simulated pipeline becomes the events of a run, so that it is stepped through, drawn and saved like a real one.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ddpquiz.errors import UserError
from ddpquiz.events.event import SIMULATED, Began, End, Ended, Event, Exited, Issued, Output, Started, when
from ddpquiz.events.operation import MAX_RANKS, Operation
from ddpquiz.plan.layout import PipelineSchedule


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


def _order(schedule: PipelineSchedule, p: int, m: int, chunks: int = 1) -> list[list[Task]]:
    """The tasks of each rank in order, for p ranks and m micro-batches."""
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


_Key = tuple[str, int, int, int]  # a piece; a plain tuple is made several times as fast


class Slot(NamedTuple):
    """A task of a rank with the seconds at which it begins and ends."""

    start: float
    end: float
    task: Task


@dataclass(frozen=True, slots=True)
class Durations:
    """Seconds of a whole stage for one micro-batch; `backward` contains `weights`. `send` is between two ranks."""

    forward: float
    backward: float
    weights: float
    send: float = 0.0


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """What a simulation found: the slots of each rank, and the most micro-batches that each stored at once."""

    schedule: PipelineSchedule
    micro_batches: int
    chunks: int
    ranks: tuple[tuple[Slot, ...], ...]
    stored: tuple[float, ...]

    @property
    def seconds(self) -> float:
        return max(slots[-1].end for slots in self.ranks)

    def idle(self, rank: int) -> float:
        """The seconds for which a rank does nothing."""
        return self.seconds - sum(slot.end - slot.start for slot in self.ranks[rank])

    @property
    def bubble(self) -> float:
        """Idle time as a share of the whole run, on average over ranks."""
        ranks = len(self.ranks)
        return sum(map(self.idle, range(ranks))) / ranks / self.seconds


def simulate(schedule: PipelineSchedule, p: int, m: int, times: Durations, chunks: int = 1) -> PipelineRun:
    """Run a schedule on p ranks with m micro-batches: a task begins when its rank is free and its inputs are there."""
    tasks = _order(schedule, p, m, chunks)
    split = schedule in {PipelineSchedule.ZERO_BUBBLE, PipelineSchedule.DUALPIPE}
    lengths = _lengths(times, chunks, split=split)
    last = p * chunks - 1
    ready: dict[_Key, float] = {}
    waiting: defaultdict[_Key, list[int]] = defaultdict(list)
    slots: list[list[Slot]] = [[] for _ in range(p)]
    runnable = list(range(p))
    while runnable:
        rank = runnable.pop()
        own, todo = slots[rank], tasks[rank]
        while len(own) < len(todo):
            task = todo[len(own)]
            start, missing = own[-1].end if own else 0.0, None
            for piece in task:
                if (needed := _input(piece, last)) is None or needed in task:
                    continue
                if (at := ready.get(needed)) is None:
                    missing = needed
                    break
                if needed[2] != piece[2]:
                    at += times.send
                start = max(start, at)
            if missing is not None:
                waiting[missing].append(rank)
                break
            end = start + sum([lengths[piece[0]] for piece in task])
            own.append(Slot(start, end, task))
            for piece in task:
                ready[piece] = end
                if piece in waiting:
                    runnable += waiting.pop(piece)
    stored = tuple(_peak(each, split=split) / chunks for each in slots)
    return PipelineRun(schedule, m, chunks, tuple(map(tuple, slots)), stored)


def _lengths(times: Durations, chunks: int, *, split: bool) -> dict[str, float]:
    """The seconds of each kind of piece in one chunk."""
    backward = times.backward - times.weights if split else times.backward
    return {"F": times.forward / chunks, "B": backward / chunks, "W": times.weights / chunks}


def _input(piece: StagePiece, last: int) -> _Key | None:
    """The piece whose result a piece needs, apart from those that its rank has done before."""
    kind, micro_batch, stage, way = piece
    if kind == "F":
        return ("F", micro_batch, stage - 1, way) if stage else None
    if kind == "B" and stage < last:
        return ("B", micro_batch, stage + 1, way)
    return ("F" if kind == "B" else "B", micro_batch, stage, way)


def _peak(slots: Sequence[Slot], *, split: bool) -> int:
    """The most micro-batches (of a chunk) that a rank stores: from a forward to the last use in backward."""
    now, most, freed = 0, 0, "W" if split else "B"
    for slot in slots:
        for piece in slot.task:
            if piece[0] == "F":
                now += 1
                most = max(most, now)
            elif piece[0] == freed:
                now -= 1
    return most


def schedule_events(run: PipelineRun, title: str, tensor_bytes: int) -> list[Event]:
    """The events of a simulated pipeline; `tensor_bytes` is the size of what stages send each other.

    UserError if the pipeline has more ranks than a run can have.
    """
    count = len(run.ranks)
    if count > MAX_RANKS:
        raise UserError(f"A replay has at most {MAX_RANKS:,} ranks; this pipeline has {count:,}.")
    began = Began(title, (), count, "cpu", SIMULATED, "a plan: nothing ran", title=title)
    between: list[Event] = []
    for rank, slots in enumerate(run.ranks):
        between.append(Started(0.0, rank, 0))
        events = list(_rank_events(run, rank, slots, tensor_bytes))
        between += [*events, *_wait_for_end(run, rank, slots, events), Exited(run.seconds, rank, 0)]
    between.sort(key=when)  # stable: events of one moment stay in the order of their rank
    return [began, *between, End(run.seconds, ok=True, proven=0, claims=0)]


def _rank_events(run: PipelineRun, rank: int, slots: tuple[Slot, ...], size: int) -> Iterator[Event]:
    count, last = len(run.ranks), len(run.ranks) * run.chunks - 1
    number, free = 0, 0.0
    for slot in slots:
        for piece in slot.task:
            source = _source(piece, count, last)
            if source is not None and source != rank:
                number += 1
                yield Issued(free, rank, number, _operation("recv", piece, rank, source, size))
                yield Ended(slot.start, rank, number)
        yield Output(slot.start, rank, "out", f"task: {_name(slot)}", "task", _name(slot))
        for piece in slot.task:
            target = _target(piece, count, last)
            if target is not None and target != rank:
                number += 1
                yield Issued(slot.end, rank, number, _operation("send", piece, rank, target, size))
                yield Ended(slot.end, rank, number)
        free = slot.end


def _wait_for_end(run: PipelineRun, rank: int, slots: tuple[Slot, ...], events: list[Event]) -> list[Event]:
    """Return that a rank waits until all have done their tasks; else the time after its last one would look busy."""
    number = 1 + sum(isinstance(event, Issued) for event in events)
    everybody = Operation("barrier", tuple(range(len(run.ranks))), None, (), "", 0, "", 0, group="step")
    done = slots[-1].end if slots else 0.0
    return [Issued(done, rank, number, everybody), Ended(run.seconds, rank, number)]


def _name(slot: Slot) -> str:
    """Name what a rank does: `F 3`, `B 1`, or `F 4 B 2` side by side; `*` marks the other direction of DualPipe."""
    shown = [piece for piece in slot.task if piece.kind != "W" or len(slot.task) == 1]
    return " ".join(f"{piece.kind} {piece.micro_batch}" + "*" * piece.way for piece in shown)


def _rank_of(stage: int, way: int, count: int) -> int:
    return count - 1 - stage if way else stage % count


def _source(piece: StagePiece, count: int, last: int) -> int | None:
    """The rank from which a piece receives."""
    if piece.kind == "F" and piece.stage:
        return _rank_of(piece.stage - 1, piece.way, count)
    if piece.kind == "B" and piece.stage < last:
        return _rank_of(piece.stage + 1, piece.way, count)
    return None


def _target(piece: StagePiece, count: int, last: int) -> int | None:
    """The rank to which the result of a piece goes."""
    if piece.kind == "F" and piece.stage < last:
        return _rank_of(piece.stage + 1, piece.way, count)
    if piece.kind == "B" and piece.stage:
        return _rank_of(piece.stage - 1, piece.way, count)
    return None


def _operation(op: str, piece: StagePiece, rank: int, peer: int, size: int) -> Operation:
    """A send or receive; each kind of tensor has a group of its own, so that they are matched in order."""
    members = tuple(sorted((rank, peer)))
    group = f"{'activations' if piece.kind == 'F' else 'gradients'} {piece.way}"
    return Operation(op, members, peer, ((size // 2,),), "bfloat16", size, "", 0, group=group)
