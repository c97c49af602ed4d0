"""What it costs a script to be watched: per collective, per DDP step, and how many events a second there can be.

    python benchmarks/recorder.py [--rounds 9]

Every round forks the same ranks twice from a process that has imported torch: watched, with a reader at the end of the
pipe as in a real run, and not, so that both meet the same noise. The figures are medians, and in brackets the least
that a short batch of calls took, in a moment when nothing else ran on the machine.
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
    """Return what all-reduces four numbers."""
    x = torch.ones(4)
    return lambda: dist.all_reduce(x)


def ddp_steps() -> Callable[[], object]:
    """Return what makes one step of a model whose gradients fill some buckets."""
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
            be_rank(rank, ranks, prepare, count, figure, sent if watched else None, f"{folder}/store")
        pids.append(pid)
    os.close(figure)
    os.close(sent)
    lines = 0
    while data := os.read(events, 1 << 16):  # the launcher's part
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


def be_rank(
    rank: int, ranks: int, prepare: Callable[[], Callable[[], object]], count: int, figure: int, sent: int | None,
    store: str,
) -> None:  # fmt: skip
    """Measure, in a process of its own, and end it."""
    torch.set_num_threads(1)
    if sent is not None:
        recorder.install(EventWriter(sent, rank, time.monotonic()), __file__)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    call = prepare()
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
    if rank == 0:
        os.write(figure, f"{statistics.median(seconds)} {min(seconds)}".encode())
    os._exit(0)


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
