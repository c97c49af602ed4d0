"""What `ddpquiz.record` costs a job: per all-reduce, and per step of 50 ms.

    python benchmarks/record.py [--steps 200] [--ranks 2] [--calls 20] [--bytes 1000000]

The ranks make each step in four ways, in random order: without recorder, with a kernel in Python that only passes the
call on (what torch itself costs any recorder of this kind), recorded, and recorded by the kernels, as operations are
for which there is no faster way. So all ways meet the same noise. `more` is the median over the steps of what a way
adds to the same step without recorder; the quartiles of these differences show the noise. Other work on the machine
changes the processor time of the thread that calls less than the rest.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # the first optimizer would import it
import torch.distributed as dist

from ddpquiz import record
from ddpquiz.ranks.inside import kernels
from ddpquiz.ranks.inside.operations import Operator

STEP = 0.05  # seconds of a step
PLAIN, PASSED_ON, RECORDED, BY_KERNELS = WAYS = ("not recorded", "passed on", "recorded", "by the kernels")
CLOCKS = ("on the clock", "processor, all threads", "processor, calling thread")
Costs = tuple[float, ...]  # seconds of the calls of a step, by each of the clocks


class Switch:
    """Lets this process call all-reduce in one way or another; recording must have begun."""

    def __init__(self, plain: tuple[Any, Any]) -> None:
        self.plain, self.recorded = plain, all_reduce_and_wait()
        registered = kernels.registered()
        registered.remove()
        below = registered.private.keyset_after(registered.private.backend_select)
        operator = Operator.of(torch.ops.c10d.allreduce_.default, "allreduce_", registered.private)
        self.kernels = {
            PASSED_ON: lambda keys, *args: operator.redispatch(keys & below, *args),
            BY_KERNELS: registered._kernel(operator, below),  # noqa: SLF001
        }
        self._library: torch.library.Library | None = None

    def turn(self, way: str) -> None:
        self._library = None
        if way in self.kernels:
            self._library = torch.library.Library("c10d", "IMPL")
            self._library.impl("allreduce_", self.kernels[way], "BackendSelect", with_keyset=True)
        dist.ProcessGroup.allreduce = (self.recorded if way == RECORDED else self.plain)[0]
        dist.Work.wait = (self.recorded if way in (RECORDED, BY_KERNELS) else self.plain)[1]


def all_reduce_and_wait() -> tuple[Any, Any]:
    return dist.ProcessGroup.__dict__["allreduce"], dist.Work.__dict__["wait"]


def be_rank(rank: int, folder: str, given: argparse.Namespace) -> list[dict[str, Costs]]:
    """Run the steps; return what the calls of each cost in each way."""
    torch.set_num_threads(1)
    plain = all_reduce_and_wait()
    record.start(folder)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=given.ranks)
    switch, dice = Switch(plain), random.Random(0)
    x, weight = torch.ones(given.bytes // 4), torch.ones(200, 200)
    steps = []
    for _ in range(given.steps):
        costs: dict[str, Costs] = {}
        for way in dice.sample(WAYS, len(WAYS)):
            switch.turn(way)
            dist.barrier()
            dist.barrier()  # the second one finds all ranks ready
            process, thread, began = time.process_time(), time.thread_time(), time.perf_counter()
            for _ in range(given.calls):
                dist.all_reduce(x)
            seconds, own = time.perf_counter() - began, time.thread_time() - thread
            while time.perf_counter() - began < STEP:  # compute for the rest of the step
                weight = (weight @ weight).clamp(0, 1)
            others = time.process_time() - process - (time.thread_time() - thread)
            costs[way] = seconds, own + others, own
        steps.append(costs)
    return steps


def print_costs(steps: list[dict[str, Costs]], calls: int) -> None:
    scale = 1e6 / calls
    print(f"{'microseconds per all-reduce':43}{'median':>9}{'more':>8}{'quartiles':>18}{'of the step':>13}")
    for at, clock in enumerate(CLOCKS):
        for way in WAYS:
            low, more, high = statistics.quantiles([each[way][at] - each[PLAIN][at] for each in steps], n=4)
            median = statistics.median(each[way][at] for each in steps) * scale
            quartiles = f"{low * scale:.1f} to {high * scale:.1f}"
            print(f"{clock + ', ' + way:43}{median:>9.1f}{more * scale:>8.1f}{quartiles:>18}{more / STEP:>13.2%}")


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser()
    options.add_argument("--steps", type=int, default=200)
    options.add_argument("--ranks", type=int, default=2)
    options.add_argument("--calls", type=int, default=20)
    options.add_argument("--bytes", type=int, default=1_000_000)
    given = options.parse_args()
    gc.freeze()
    folder = tempfile.mkdtemp(prefix="ddpquiz-bench-")
    pids = []
    for rank in range(given.ranks):
        pid = os.fork()
        if pid == 0:
            steps = be_rank(rank, folder, given)
            if rank == 0:
                print_costs(steps, given.calls)
            sys.stdout.flush()
            os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    lines = sum(path.read_bytes().count(b'"issued"') for path in Path(folder).glob("rank-*.jsonl"))
    shutil.rmtree(folder)
    if lines < given.ranks * given.steps * given.calls * 2:
        raise RuntimeError(f"only {lines} operations were recorded")


if __name__ == "__main__":
    main()
