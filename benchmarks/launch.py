"""How long a launch takes, compared with torchrun and torch.multiprocessing.spawn, as ratios.

    python benchmarks/launch.py [--rounds 5] [--ranks 1 2 4 8]

The script is always the same: form a group, make one all-reduce, leave the group. Cold is a whole command; warm is one
more run in a process that has already made one, as in a sitting. Every round runs each way once, so that all see the
same noise; the ratios are medians over the rounds.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ddpquiz.events.event import End
from ddpquiz.ranks import server_connection
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable

BIN = Path(sys.executable).parent
SCRIPT = """\
import torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(2)
dist.all_reduce(x)
assert x[0] == dist.get_world_size()
dist.destroy_process_group()
"""
SPAWNING = """\
import os, sys, time, torch, torch.distributed as dist, torch.multiprocessing as mp

def work(rank, ranks, port):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    x = torch.ones(2)
    dist.all_reduce(x)
    assert x[0] == ranks
    dist.destroy_process_group()

if __name__ == "__main__":
    for port in sys.argv[2:]:
        began = time.perf_counter()
        mp.spawn(work, (int(sys.argv[1]), port), nprocs=int(sys.argv[1]))
        print(time.perf_counter() - began)
"""


def whole(*words: str | Path) -> float:
    """The seconds of a whole command, which must succeed."""
    began = time.perf_counter()
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def again(script: Path, ranks: int) -> float:
    """The seconds of a run from a warm server."""
    began = time.perf_counter()
    *_, end = Run(Request(script, ranks=ranks, device="cpu", timeout=30.0)).events()
    assert isinstance(end, End)
    assert end.ok, end.why
    return time.perf_counter() - began


def spawned_again(script: Path, ranks: int) -> float:
    """The seconds of the second mp.spawn of a process."""
    words = [sys.executable, script, str(ranks), free_port(), free_port()]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def free_port() -> str:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def ways(folder: Path) -> dict[str, Callable[[int], float]]:
    """Each way to launch the script, by its name."""
    script, spawning = folder / "script.py", folder / "spawning.py"
    script.write_text(SCRIPT)
    spawning.write_text(SPAWNING)
    os.environ["OMP_NUM_THREADS"] = "1"
    return {
        "ddpquiz, warm": lambda n: again(script, n),
        "ddpquiz, cold": lambda n: whole(BIN / "ddpquiz", "run", "--nproc", str(n), "--plain", script),
        "torchrun": lambda n: whole(BIN / "torchrun", "--nproc-per-node", str(n), script),
        "mp.spawn, cold": lambda n: whole(sys.executable, spawning, str(n), free_port()),
        "mp.spawn, again": lambda n: spawned_again(spawning, n),
    }


def main() -> None:
    """Run the rounds and print a table for each number of ranks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4, 8])
    asked = parser.parse_args()
    print(f"{'':6} {'':16} {'median':>8} {'min':>8} {'max':>8}   times ddpquiz, warm | cold   (seconds)")
    with tempfile.TemporaryDirectory(prefix="ddpquiz-") as folder:
        launchers = ways(Path(folder))
        launchers["ddpquiz, warm"](1)  # the server imports torch
        for ranks in asked.ranks:
            seconds: dict[str, list[float]] = {name: [] for name in launchers}
            for _ in range(asked.rounds):
                for name, start in launchers.items():
                    seconds[name].append(start(ranks))
            warm, cold = seconds["ddpquiz, warm"], seconds["ddpquiz, cold"]
            for name, took in seconds.items():
                to_warm, to_cold = (
                    statistics.median(one / other for one, other in zip(took, base, strict=True))
                    for base in (warm, cold)
                )
                print(
                    f"{ranks:<6} {name:16} {statistics.median(took):8.2f} {min(took):8.2f} {max(took):8.2f}   "
                    f"{to_warm:19.1f} | {to_cold:.1f}",
                    flush=True,
                )
    server_connection.close()


if __name__ == "__main__":
    main()
