"""What `ddpquiz.record` costs a job: per collective, and per step of 50 ms with 100 small all-reduces.

    python benchmarks/record.py [--rounds 9] [--ranks 1]

Every round forks the same ranks three times from a process that has imported torch: without recorder, with a
kernel in Python that only passes the call on (what torch itself costs any recorder of this kind), and recorded into a
folder, so that all meet the same noise. The figures are medians over the rounds of the differences within a round.
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
    seconds = []
    for _ in range(STEPS):
        began = time.perf_counter()
        spent = 0.0
        for _ in range(CALLS):
            before = time.perf_counter()
            dist.all_reduce(x)
            spent += time.perf_counter() - before
        while time.perf_counter() - began < STEP:  # compute for the rest of the step
            weight = (weight @ weight).clamp(0, 1)
        seconds.append(spent)
    if rank == 0:
        os.write(figure, f"{statistics.median(seconds)}".encode())
    del library
    if how == "recorded":
        time.sleep(0.5)  # os._exit writes no buffer; the recorder's thread does
    os._exit(0)


def measure(ranks: int, how: str) -> float:
    """Return the microseconds of an all-reduce on rank 0."""
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
    seconds = float(os.read(out, 100))
    lines = sum(path.read_bytes().count(b'"issued"') for path in Path(folder).glob("rank-*.jsonl"))
    if how == "recorded" and lines < ranks * STEPS * CALLS:
        raise RuntimeError(f"only {lines} operations were recorded")
    shutil.rmtree(folder)
    os.close(out)
    os.close(figure)
    return seconds / CALLS * 1e6


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--ranks", type=int, default=1)
    given = options.parse_args()
    gc.freeze()
    ways = ("plain", "passed on", "recorded")
    rounds = [{how: measure(given.ranks, how) for how in ways} for _ in range(given.rounds)]
    print(f"{'microseconds per all-reduce':30}{'median':>10}{'least':>10}{'more':>10}{'of a step of 50 ms':>22}")
    for how in ways:
        more = statistics.median(each[how] - each["plain"] for each in rounds)
        every = [each[how] for each in rounds]
        share = more * 1e-6 * CALLS / STEP
        print(f"{how:30}{statistics.median(every):>10.1f}{min(every):>10.1f}{more:>10.1f}{share:>22.1%}")


if __name__ == "__main__":
    main()
