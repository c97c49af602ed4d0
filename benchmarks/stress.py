"""Whether ranks ever hang, are left behind, or are blamed for a fault of another rank.

    python benchmarks/stress.py [--launches 500] [--times 200] [--ranks 4]

First come launches in a row, then each fault at a random moment in a random rank. A fault must end the run within 2 s,
from the fault to the last process reaped (plus the timeout of 1 s for a stopped rank), name the right rank and leave
nothing behind. Then, where strace is installed, every demo runs: nothing may bind to an address other than loopback.
The exit status is 1 if a check fails.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from ddpquiz.events.event import End, Issued, Started
from ddpquiz.paths import demos_dir
from ddpquiz.ranks import server_connection
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run

SHORT = """\
import torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(2)
for _ in range(3):
    dist.all_reduce(x)
dist.destroy_process_group()
"""
ENDLESS = """\
import signal, sys, time, torch, torch.distributed as dist

planted = []
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(3))
signal.signal(signal.SIGUSR2, lambda *_: planted.append(True))
dist.init_process_group("gloo")
x = torch.ones(2)
while True:
    dist.all_reduce(x)
    time.sleep(0.002)
    if planted:
        raise RuntimeError("planted")
"""
TIMEOUT = 1.0
FAULTS = {
    "SIGKILL": (signal.SIGKILL, 2.0),
    "SIGSEGV": (signal.SIGSEGV, 2.0),
    "sys.exit(3)": (signal.SIGUSR1, 2.0),
    "an exception": (signal.SIGUSR2, 2.0),
    "SIGSTOP": (signal.SIGSTOP, TIMEOUT + 2.0),
}


@dataclass
class Tally:
    """What happened in many runs of one kind; `limit` is in seconds."""

    name: str
    limit: float
    seconds: list[float] = field(default_factory=list)
    wrong: int = 0  # runs that named the wrong rank, or failed without a fault
    left: int = 0  # processes and open files

    @property
    def fine(self) -> bool:
        """True if no check failed."""
        return not (self.wrong or self.left) and max(self.seconds, default=0.0) <= self.limit

    def __str__(self) -> str:
        median, worst = statistics.median(self.seconds or [0.0]), max(self.seconds, default=0.0)
        late = sum(each > self.limit for each in self.seconds)
        return f"{self.name:14} {len(self.seconds):6} {median:8.2f} {worst:8.2f} {late:6} {self.wrong:6} {self.left:6}"


def launches(script: Path, count: int, ranks: int) -> Tally:
    """Launch a run that succeeds, many times."""
    tally = Tally("launches", 10.0)
    for number in range(count):
        began = time.monotonic()
        *_, end = Run(Request(script, ranks=ranks, device="cpu", timeout=10.0)).events()
        tally.seconds.append(time.monotonic() - began)
        tally.wrong += not (isinstance(end, End) and end.ok)
        if number == 0:
            files = open_files()
    tally.left = len(children()) + max(0, open_files() - files)
    return tally


def faults(script: Path, name: str, times: int, ranks: int, dice: random.Random) -> Tally:
    """Plant a fault at a random moment in a random rank, many times."""
    which, limit = FAULTS[name]
    tally = Tally(name, limit)
    for _ in range(times):
        run, victim = Run(Request(script, ranks=ranks, device="cpu", timeout=TIMEOUT)), dice.randrange(ranks)
        pids, communicating = dict[int, int](), set[int]()
        while len(communicating) < ranks and not run.over:
            for event in run.read(0.1):
                if isinstance(event, Started):
                    pids[event.rank] = event.pid
                elif isinstance(event, Issued):
                    communicating.add(event.rank)
        if run.over:  # nothing was planted yet
            tally.wrong += 1
            continue
        until = time.monotonic() + dice.uniform(0, 0.1)
        while time.monotonic() < until:
            run.read(0.01)
        os.kill(pids[victim], which)
        began = time.monotonic()
        *_, end = run.events()
        tally.seconds.append(time.monotonic() - began)
        tally.wrong += not (isinstance(end, End) and end.rank == victim and not end.ok)
        tally.left += len(children() | {pid for pid in pids.values() if Path(f"/proc/{pid}").exists()})
    return tally


def listening(ranks: int) -> dict[str, int]:
    """Run every demo under strace, and count the addresses to which any process of it binds a socket."""
    found: dict[str, int] = {}
    for demo in sorted(demos_dir().glob("*.py")):
        with tempfile.NamedTemporaryFile("r", prefix="ddpquiz-") as trace:
            traced = ["strace", "-f", "-qq", "-e", "trace=bind", "-o", trace.name]
            words = [sys.executable, "-m", "ddpquiz", "demo", demo.stem, "--plain", "--device", "cpu", "-n", str(ranks)]
            subprocess.run([*traced, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            for address in re.findall(r"AF_INET.*inet_(?:addr|pton)\((?:AF_INET6, )?\"([^\"]+)\"", trace.read()):
                found[address] = found.get(address, 0) + 1
    return found


def children() -> set[int]:
    """The processes that the server has not reaped."""
    pid = server_connection.server().process.pid
    return {int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def open_files() -> int:
    """Count the open files of this process and of the server."""
    return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in ("self", server_connection.server().process.pid))


def main() -> int:
    """Run everything and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--launches", type=int, default=500)
    parser.add_argument("--times", type=int, default=200, help="of each fault")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--trace", action=argparse.BooleanOptionalAction, default=True, help="demos under strace")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    dice = random.Random(asked.seed)
    print(f"{'':14} {'runs':>6} {'median':>8} {'worst':>8} {'late':>6} {'wrong':>6} {'left':>6}   (seconds)")
    good = True
    with tempfile.TemporaryDirectory(prefix="ddpquiz-") as folder:
        short, endless = Path(folder, "short.py"), Path(folder, "endless.py")
        short.write_text(SHORT)
        endless.write_text(ENDLESS)
        if asked.launches:
            tally = launches(short, asked.launches, asked.ranks)
            good &= tally.fine
            print(tally, flush=True)
        for name in FAULTS if asked.times else ():
            tally = faults(endless, name, asked.times, asked.ranks, dice)
            good &= tally.fine
            print(tally, flush=True)
    server_connection.close()
    if shutil.which("strace") and asked.trace:
        found = listening(asked.ranks)
        good &= found.keys() == {"127.0.0.1"}
        said = ", ".join(f"{address} {count} times" for address, count in found.items())
        print(f"all demos under strace bind to: {said}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
