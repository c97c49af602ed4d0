"""What `ddpquiz.record` costs a job: per collective, and per step of 50 ms with 100 small all-reduces.

    python benchmarks/record.py [--rounds 9] [--ranks 1]

Every round forks the same ranks three times from a process that has imported torch: without recorder, with a
kernel in Python that only passes the call on (what torch itself costs any recorder of this kind), and recorded into a
folder, so that all meet the same noise. The figures are medians over the rounds of the differences within a round.
`processor` is the processor time of an all-reduce in the thread that calls it, and `others` that of all other threads
of the process (Gloo's and the recorder's): other work on the machine changes them less than the time that passes.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import torch
import torch._dynamo  # the first optimizer would import it
import torch.distributed as dist

from ddpquiz import record
from ddpquiz.ranks.inside import torch_private

STEP, CALLS = 0.05, 100  # seconds of a step, and its all-reduces
STEPS = 40
Costs = tuple[float, float, float]  # microseconds of an all-reduce: that pass, of the processor, of it in other threads


def pass_on() -> torch.library.Library:
    """Put a kernel in front of all-reduce that does nothing."""
    private = torch_private.find()
    below = private.keyset_after(private.backend_select)
    redispatch = torch_private.redispatch(torch.ops.c10d.allreduce_.default)
    library = torch.library.Library("c10d", "IMPL")
    library.impl("allreduce_", lambda keys, *args: redispatch(keys & below, *args), "BackendSelect", with_keyset=True)
    return library


def be_rank(rank: int, ranks: int, how: str, folder: str, figure: int) -> None:
    """Run the steps, and write the median seconds of the 100 calls of a step."""
    torch.set_num_threads(1)
    library = pass_on() if how == "passed on" else None
    if how == "recorded":
        record.start(folder)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    x, weight = torch.ones(4), torch.ones(200, 200)
    seconds, processor = [], []
    all_before, own_before = time.process_time(), time.thread_time()
    for _ in range(STEPS):
        began, used = time.perf_counter(), time.thread_time()
        for _ in range(CALLS):
            dist.all_reduce(x)
        seconds.append(time.perf_counter() - began)
        processor.append(time.thread_time() - used)
        while time.perf_counter() - began < STEP:  # compute for the rest of the step
            weight = (weight @ weight).clamp(0, 1)
    if rank == 0:
        others = (time.process_time() - all_before - time.thread_time() + own_before) / STEPS
        os.write(figure, f"{statistics.median(seconds)} {statistics.median(processor)} {others}".encode())
    del library
    if how == "recorded":
        time.sleep(0.5)  # os._exit writes no buffer; the recorder's thread does
    os._exit(0)


def measure(ranks: int, how: str) -> Costs:
    """Return what an all-reduce costs on rank 0."""
    folder = tempfile.mkdtemp(prefix="ddpquiz-bench-")
    out, figure = os.pipe()
    pids = []
    for rank in range(ranks):
        pid = os.fork()
        if pid == 0:
            be_rank(rank, ranks, how, folder, figure)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    passed, processor, others = (float(each) / CALLS * 1e6 for each in os.read(out, 100).split())
    lines = sum(path.read_bytes().count(b'"issued"') for path in Path(folder).glob("rank-*.jsonl"))
    if how == "recorded" and lines < ranks * STEPS * CALLS:
        raise RuntimeError(f"only {lines} operations were recorded")
    shutil.rmtree(folder)
    os.close(out)
    os.close(figure)
    return passed, processor, others


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--ranks", type=int, default=1)
    given = options.parse_args()
    gc.freeze()
    ways = ("plain", "passed on", "recorded")
    rounds = [{how: measure(given.ranks, how) for how in ways} for _ in range(given.rounds)]
    print(
        f"{'microseconds per all-reduce':30}{'median':>10}{'least':>10}{'more':>10}{'of a step of 50 ms':>20}", end=""
    )
    print(f"{'processor':>12}{'others':>10}")
    for how in ways:
        more = statistics.median(each[how][0] - each["plain"][0] for each in rounds)
        passed, processor, others = zip(*[each[how] for each in rounds], strict=True)
        share = more * 1e-6 * CALLS / STEP
        print(f"{how:30}{statistics.median(passed):>10.1f}{min(passed):>10.1f}{more:>10.1f}{share:>20.1%}", end="")
        print(f"{statistics.median(processor):>12.1f}{statistics.median(others):>10.1f}")


if __name__ == "__main__":
    main()
