"""How much watching costs a script: per collective, per DDP step, and how many events per second are possible.

    python benchmarks/recorder.py [--rounds 9]

Every round forks the same ranks twice from a process that has imported torch: once watched, with a reader of the pipe
as in a real run, and once unwatched, so that both see the same noise. The figures are medians and, in brackets, the
minimum over short batches of calls, which shows the cost when nothing else runs on the machine.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch._dynamo  # the first optimizer would import it
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ddpquiz.ranks.inside import recorder
from ddpquiz.ranks.inside.event_writer import EventWriter
from ddpquiz.ranks.processes import REST

if TYPE_CHECKING:
    from collections.abc import Callable


BUCKETS = 4  # of the model whose steps are measured


def tiny_all_reduces() -> Callable[[], object]:
    """A function that all-reduces four numbers."""
    x = torch.ones(4)
    return lambda: dist.all_reduce(x)


def ddp_steps() -> Callable[[], object]:
    """A function that makes one step of a model whose gradients fill some buckets."""
    model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(BUCKETS)))
    replica = DistributedDataParallel(model, bucket_cap_mb=0.2)
    optimizer = torch.optim.SGD(replica.parameters(), lr=0.01)
    x = torch.randn(32, 256)

    def step() -> None:
        optimizer.zero_grad()
        replica(x).square().mean().backward()
        optimizer.step()

    return step


@dataclass(frozen=True)
class Measured:
    """Microseconds of a call, and the events of all ranks."""

    median: float
    least: float
    events: int


def measure(prepare: Callable[[], Callable[[], object]], ranks: int, count: int, *, watched: bool) -> Measured:
    """Measure calls on rank 0, and how many events all ranks sent."""
    folder = tempfile.mkdtemp(prefix="ddpquiz-bench-")
    out, figure = os.pipe()
    events, sent = os.pipe()
    pids = []
    for rank in range(ranks):
        pid = os.fork()
        if pid == 0:
            os.close(events)
            torch.set_num_threads(1)
            if watched:
                recorder.install(EventWriter(sent, rank, time.monotonic()))
            store = f"file://{folder}/store"
            dist.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks)
            call_in_batches(prepare(), count, figure if rank == 0 else None)
            os._exit(0)
        pids.append(pid)
    os.close(figure)
    os.close(sent)
    lines = 0
    while data := os.read(events, 1 << 16):  # as the launcher does
        lines += data.count(b"\n")
        time.sleep(REST)
    median, least = map(float, os.read(out, 100).split())
    for pid in pids:
        os.waitpid(pid, 0)
    for fd in (out, events):
        os.close(fd)
    Path(folder, "store").unlink(missing_ok=True)
    Path(folder).rmdir()
    return Measured(median * 1e6, least * 1e6, lines)


def call_in_batches(call: Callable[[], object], count: int, figure: int | None) -> None:
    """Call `call` about `count` times, and write the median and the minimum of the seconds per call to `figure`."""
    batch = max(1, count // 400)
    for _ in range(batch * 20):
        call()
    seconds = []
    for _ in range(count // batch):
        began = time.perf_counter()
        for _ in range(batch):
            call()
        seconds.append((time.perf_counter() - began) / batch)
    dist.barrier()
    if figure is not None:
        os.write(figure, f"{statistics.median(seconds)} {min(seconds)}".encode())


CASES = {
    "tiny all_reduce, 1 rank": (tiny_all_reduces, 1, 4000, 1),
    "tiny all_reduce, 2 ranks": (tiny_all_reduces, 2, 1000, 1),
    "a bucket of DDP, 1 rank": (ddp_steps, 1, 400, BUCKETS),
    "DDP step, 2 ranks": (ddp_steps, 2, 100, 1),
}


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=9)
    rounds = options.parse_args().rounds
    gc.freeze()
    print(f"{'microseconds':26}{'unwatched':>18}{'watched':>18}{'more':>18}{'events/s':>10}")
    for name, (prepare, ranks, count, parts) in CASES.items():
        plain, watched = [], []
        for _ in range(rounds):
            plain.append(measure(prepare, ranks, count, watched=False))
            watched.append(measure(prepare, ranks, count, watched=True))
        more = statistics.median(after.median - before.median for before, after in zip(plain, watched, strict=True))
        least = [min(each.least for each in side) for side in (plain, watched)]
        medians = [statistics.median(each.median for each in side) for side in (plain, watched)]
        rate = statistics.median(each.events / (each.median * 1e-6 * count) for each in watched)
        columns = [(medians[0], least[0]), (medians[1], least[1]), (more, least[1] - least[0])]
        figures = "".join(f"{median / parts:.0f} ({low / parts:.0f})".rjust(18) for median, low in columns)
        print(f"{name:26}{figures}{rate:>10,.0f}")


if __name__ == "__main__":
    main()
