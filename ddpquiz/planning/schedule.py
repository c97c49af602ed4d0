"""A small discrete simulation of a pipeline: when each rank does what, how long it idles, and what it stores."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ddpquiz.planning.layout import PipelineSchedule
from ddpquiz.planning.pipeline_order import StagePiece, Task, order

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
        """Return the seconds for which a rank does nothing."""
        return self.seconds - sum(slot.end - slot.start for slot in self.ranks[rank])

    @property
    def bubble(self) -> float:
        """Idle time as a share of the whole run, on average over ranks."""
        ranks = len(self.ranks)
        return sum(map(self.idle, range(ranks))) / ranks / self.seconds


def simulate(schedule: PipelineSchedule, p: int, m: int, times: Durations, chunks: int = 1) -> PipelineRun:
    """Run a schedule on p ranks with m micro-batches: a task begins when its rank is free and its inputs are there."""
    tasks = order(schedule, p, m, chunks)
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
    """Return the seconds of each kind of piece in one chunk."""
    backward = times.backward - times.weights if split else times.backward
    return {"F": times.forward / chunks, "B": backward / chunks, "W": times.weights / chunks}


def _input(piece: StagePiece, last: int) -> _Key | None:
    """Return the piece whose result a piece needs, apart from those that its rank has done before."""
    kind, micro_batch, stage, way = piece
    if kind == "F":
        return ("F", micro_batch, stage - 1, way) if stage else None
    if kind == "B" and stage < last:
        return ("B", micro_batch, stage + 1, way)
    return ("F" if kind == "B" else "B", micro_batch, stage, way)


def _peak(slots: Sequence[Slot], *, split: bool) -> int:
    """Return the most micro-batches (of a chunk) that a rank stores: from a forward to the last use in backward."""
    now, most, freed = 0, 0, "W" if split else "B"
    for slot in slots:
        for piece in slot.task:
            if piece[0] == "F":
                now += 1
                most = max(most, now)
            elif piece[0] == freed:
                now -= 1
    return most
