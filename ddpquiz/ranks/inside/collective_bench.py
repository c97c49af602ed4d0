"""Measures collectives inside a rank. Rank 0 prints each sample as a line of JSON; `ddpquiz bench` reads them.

All sizes are measured once in each pass, and passes follow each other until the time is over: what else runs on the
machine then disturbs all sizes alike, and whoever stops early has a time of each size.
"""

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import torch
import torch.distributed as dist

_BATCH = 0.008  # seconds that the calls of one size last together in a pass, at least
_MOST_CALLS = 50  # of one size in a pass
SMALL, LARGE = 1 << 16, 1 << 20  # bytes; above the second, time grows with the size
_ITEM = 4  # bytes of a float32

Call = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchPlan:
    """What to measure: operations, sizes in bytes, and for how many seconds."""

    ops: Sequence[str]
    sizes: Sequence[int]
    seconds: float


@dataclass(frozen=True, slots=True)
class BenchSample:
    """Seconds of some calls, each on the rank where it lasted longest; or why the operation cannot run."""

    op: str
    size: int
    seconds: tuple[float, ...]
    error: str = ""


class CollectiveBench:
    """Measures on the ranks of a process group that exists; every rank makes the same calls."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.rank, self.ranks = device, dist.get_rank(), dist.get_world_size()
        self._until = 0.0
        self._estimates: dict[tuple[str, int], float] = {}  # seconds of a call, equal on all ranks
        self._refused: set[str] = set()

    def samples(self, plan: BenchPlan) -> Iterator[BenchSample]:
        """Yield samples until the time is over; equal on all ranks."""
        self._until = time.monotonic() + plan.seconds
        points = [*dict.fromkeys((op, _exact_size(op, size, self.ranks)) for size in plan.sizes for op in plan.ops)]
        went_on = True
        while went_on:
            went_on = False
            for op, size in points:
                if op in self._refused or not self._is_affordable(op, size):
                    continue
                went_on = True
                yield self._sample(op, size)

    def _is_affordable(self, op: str, size: int) -> bool:
        """What rank 0 decides: whether there is time for a sample of this size."""
        if size <= SMALL and (op, size) not in self._estimates:
            return True  # each small size once, however short the time is
        smaller = [(each, known) for (name, known), each in self._estimates.items() if name == op and known < size]
        guess = max((3 * seconds * size / known for seconds, known in smaller[-1:]), default=0.0)
        expected = self._estimates.get((op, size), guess if size > LARGE else 0.0)
        answer = torch.tensor([float(self._until - time.monotonic() > expected)], device=self.device)
        dist.broadcast(answer, src=0)
        return bool(answer.item())

    def _sample(self, op: str, size: int) -> BenchSample:
        try:
            call = _make_call(op, size, self.device)
            if (op, size) not in self._estimates:
                self._time(call, 1)
                self._estimates[op, size] = max(self._time(call, 1))
        except (RuntimeError, NotImplementedError) as refused:
            self._refused.add(op)
            return BenchSample(op, size, (), str(refused).splitlines()[0])
        calls = max(1, min(_MOST_CALLS, round(_BATCH / self._estimates[op, size])))
        times = self._time(call, calls)
        self._estimates[op, size] = min(self._estimates[op, size], median(times))  # a first call may be slow
        return BenchSample(op, size, tuple(seconds / (2 if op == "send" else 1) for seconds in times))

    def _time(self, call: Call, calls: int) -> list[float]:
        """The seconds of each call, on the rank where it lasted longest; on GPUs, their mean."""
        on_gpu = self.device.type == "cuda"
        dist.barrier()
        self._synchronize()
        times = [time.perf_counter()]
        for _ in range(calls):
            call()
            if not on_gpu:  # there, a time stamp would need a synchronization after each call
                times.append(time.perf_counter())
        self._synchronize()
        if on_gpu:
            spans = [(time.perf_counter() - times[0]) / calls]
        else:
            spans = [after - before for before, after in pairwise(times)]
        longest = torch.tensor(spans, dtype=torch.float64, device=self.device)
        dist.all_reduce(longest, dist.ReduceOp.MAX)
        return [float(seconds) for seconds in longest.tolist()]

    def leave(self) -> None:
        """Leave the process group."""
        dist.destroy_process_group()

    def _synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def _exact_size(op: str, size: int, ranks: int) -> int:
    """The bytes, as nccl-tests count them, nearest to a size that all ranks can share."""
    parts = 1 if op in ("all_reduce", "broadcast", "reduce", "send") else ranks
    return max(1, round(size / (_ITEM * parts))) * _ITEM * parts


def _make_call(op: str, size: int, device: torch.device) -> Call:  # a case for each operation
    """A function that makes one call; that of `send` sends there and back."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    whole = torch.ones(size // _ITEM, device=device)
    match op:
        case "all_reduce":
            return lambda: dist.all_reduce(whole)
        case "broadcast":
            return lambda: dist.broadcast(whole, src=0)
        case "reduce":
            return lambda: dist.reduce(whole, dst=0)
        case "send":
            return lambda: _there_and_back(whole, rank, ranks - 1)
    part, parts = torch.ones(size // _ITEM // ranks, device=device), list(whole.chunk(ranks))
    match op:
        case "all_gather":
            all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
            return lambda: all_gather(whole, part)
        case "reduce_scatter":
            reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
            return lambda: reduce_scatter(part, whole)
        case "all_to_all":
            out = torch.empty_like(whole)
            return lambda: dist.all_to_all_single(out, whole)
        case "gather":
            return lambda: dist.gather(part, parts if rank == 0 else None, dst=0)
        case "scatter":
            return lambda: dist.scatter(part, parts if rank == 0 else None, src=0)
    raise ValueError(f"There is no operation {op}.")


def _there_and_back(tensor: torch.Tensor, rank: int, last: int) -> None:
    if rank == 0 and last > 0:
        dist.send(tensor, dst=last)
        dist.recv(tensor, src=last)
    elif rank == last > 0:
        dist.recv(tensor, src=0)
        dist.send(tensor, dst=0)


@dataclass(frozen=True, slots=True)
class RanksInfo:
    """What a job runs on: its backend, the version of torch, and the number of machines."""

    backend: str
    torch: str
    machines: int


def describe_ranks() -> RanksInfo:
    """What the ranks of this job run on; every rank calls it."""
    hosts: list[str | None] = [None] * dist.get_world_size()
    dist.all_gather_object(hosts, platform.node())
    return RanksInfo(dist.get_backend(), torch.__version__, len(set(hosts)))


def join(device: str = "") -> CollectiveBench:
    """Form the process group from the environment, as torchrun sets it.

    `device` is cpu or cuda; by default, GPUs are used if there is one for each rank of this machine.
    """
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if device == "cuda" or (not device and dist.is_nccl_available() and torch.cuda.device_count() >= local):
        here = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(here)
        dist.init_process_group("nccl", device_id=here)
    else:
        here = torch.device("cpu")
        dist.init_process_group("gloo")
    return CollectiveBench(here)


def main(device: str, ops: str, sizes: str, seconds: str) -> None:
    """Measure, and print the samples on rank 0."""
    bench = join(device)
    plan = BenchPlan(ops=ops.split(","), sizes=[int(size) for size in sizes.split(",")], seconds=float(seconds))
    for sample in bench.samples(plan):
        if bench.rank == 0:
            print(json.dumps([sample.op, sample.size, sample.seconds, sample.error]), flush=True)
    bench.leave()


if __name__ == "__main__":
    main(*sys.argv[1:])
