"""What `ddpquiz.record` costs a job: per all-reduce, and per step of 50 ms.

    python benchmarks/record.py [--rounds 9] [--ranks 2] [--calls 20] [--bytes 1000000]

Every round forks the same ranks three times from a process that has imported torch: without recorder, with a
kernel in Python that only passes the call on (what torch itself costs any recorder of this kind), and recorded into a
folder, so that all meet the same noise. `more` is what each adds, as the median over the rounds of the differences
within a round, with the quartiles of these differences: their spread is the noise. `processor` is the processor time
that passes on a call in all threads of the process (the script's, Gloo's and the recorder's): other work on the machine
changes it less than the time on the clock.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch._dynamo  # the first optimizer would import it
import torch.distributed as dist

from ddpquiz import record
from ddpquiz.ranks.inside import torch_private

STEP = 0.05  # seconds of a step
STEPS = 40
Costs = tuple[float, float]  # microseconds of an all-reduce: on the clock, and of the processor


@dataclass(frozen=True)
class Job:
    """How many ranks call how many all-reduces in a step, and how large they are."""

    ranks: int
    calls: int
    bytes: int


def pass_on() -> torch.library.Library:
    """Put a kernel in front of all-reduce that does nothing."""
    private = torch_private.find()
    below = private.keyset_after(private.backend_select)
    redispatch = torch_private.redispatch(torch.ops.c10d.allreduce_.default)
    library = torch.library.Library("c10d", "IMPL")
    library.impl("allreduce_", lambda keys, *args: redispatch(keys & below, *args), "BackendSelect", with_keyset=True)
    return library


def be_rank(job: Job, rank: int, how: str, folder: str, figure: int) -> None:
    """Run the steps, and write the median seconds of the calls of a step, and the mean of the processor's."""
    torch.set_num_threads(1)
    library = pass_on() if how == "passed on" else None
    if how == "recorded":
        record.start(folder)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=job.ranks)
    x, weight = torch.ones(job.bytes // 4), torch.ones(200, 200)
    seconds, processor = [], 0.0
    all_before, own_before = time.process_time(), time.thread_time()
    for _ in range(STEPS):
        began, used = time.perf_counter(), time.thread_time()
        for _ in range(job.calls):
            dist.all_reduce(x)
        seconds.append(time.perf_counter() - began)
        processor += time.thread_time() - used
        while time.perf_counter() - began < STEP:  # compute for the rest of the step
            weight = (weight @ weight).clamp(0, 1)
    if rank == 0:
        processor += time.process_time() - all_before - (time.thread_time() - own_before)  # of all other threads
        os.write(figure, f"{statistics.median(seconds)} {processor / STEPS}".encode())
    del library
    if how == "recorded":
        time.sleep(0.5)  # os._exit writes no buffer; the recorder's thread does
    os._exit(0)


def measure(job: Job, how: str) -> Costs:
    """Return what an all-reduce costs on rank 0."""
    folder = tempfile.mkdtemp(prefix="ddpquiz-bench-")
    out, figure = os.pipe()
    pids = []
    for rank in range(job.ranks):
        pid = os.fork()
        if pid == 0:
            be_rank(job, rank, how, folder, figure)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    on_clock, processor = (float(each) / job.calls * 1e6 for each in os.read(out, 100).split())
    lines = sum(path.read_bytes().count(b'"issued"') for path in Path(folder).glob("rank-*.jsonl"))
    if how == "recorded" and lines < job.ranks * STEPS * job.calls:
        raise RuntimeError(f"only {lines} operations were recorded")
    shutil.rmtree(folder)
    os.close(out)
    os.close(figure)
    return on_clock, processor


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--ranks", type=int, default=2)
    options.add_argument("--calls", type=int, default=20)
    options.add_argument("--bytes", type=int, default=1_000_000)
    given = options.parse_args()
    job = Job(given.ranks, given.calls, given.bytes)
    gc.freeze()
    ways = ("plain", "passed on", "recorded")
    rounds = [{how: measure(job, how) for how in ways} for _ in range(given.rounds)]
    print(f"{job.ranks} ranks, {job.calls} all-reduces of {job.bytes:,} bytes in a step of {STEP * 1000:.0f} ms\n")
    print(f"{'microseconds per all-reduce':28}{'median':>10}{'more':>8}{'quartiles':>18}{'of the step':>13}")
    for at, clock in enumerate(("on the clock", "processor")):
        for how in ways:
            more = [each[how][at] - each["plain"][at] for each in rounds]
            low, middle, high = statistics.quantiles(more, n=4)
            median = statistics.median(each[how][at] for each in rounds)
            share = middle * 1e-6 * job.calls / STEP
            print(f"{f'{clock}, {how}':28}{median:>10.1f}{middle:>8.1f}{f'{low:.1f} to {high:.1f}':>18}{share:>13.2%}")


if __name__ == "__main__":
    main()
