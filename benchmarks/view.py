"""How much the live view costs: processor time of the ddpquiz process, and frames painted.

    python benchmarks/view.py [--seconds 10] [--ranks 4] [--rate 200]

A script issues collectives and prints steadily; `ddpquiz run` shows it in a pseudo-terminal of 120x40. The same run
with `--plain` shows how much of the time goes into reading events, without drawing.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import pexpect

SCRIPT = """\
import sys, time
import torch
import torch.distributed as dist

seconds, pause = float(sys.argv[1]), float(sys.argv[2])
dist.init_process_group("gloo")
rank, end, step = dist.get_rank(), time.monotonic() + seconds, 0
go_on = torch.ones(1)
while go_on.item():
    time.sleep(pause * (1.5 if rank == 1 else 1.0))
    x = torch.full((4,), float(rank + step))
    dist.all_reduce(x)
    print(f"step: {step}")
    print(f"loss: {4 / (step + 1) + rank:.3f}")
    print(f"sum: {x.tolist()}")
    go_on.fill_(float(time.monotonic() < end))
    dist.broadcast(go_on, 0)
    step += 1
"""
EVENTS = 9  # per rank and step: three for each of two collectives (issued, ended, result), and three lines


def watch(script: Path, ranks: int, *given: str, options: tuple[str, ...] = ()) -> tuple[float, float, int]:
    """The processor seconds that ddpquiz used while the ranks worked, the seconds that passed, and frames."""
    words = ["-m", "ddpquiz", "run", "--nproc", str(ranks), *options, str(script), *given]
    env = os.environ | {"TERM": "xterm-256color"}
    child = pexpect.spawn(sys.executable, words, dimensions=(40, 120), env=env, timeout=60, encoding="utf-8")
    child.expect("step")  # torch is loaded, and the ranks work
    used, began, frames, used_since, since = 0.0, time.monotonic(), 0, cpu_seconds(child.pid), time.monotonic()
    while True:
        try:
            frames += child.read_nonblocking(1 << 16, timeout=0.2).count("\x1b[?2026h")
        except pexpect.TIMEOUT:
            pass
        except pexpect.EOF:
            break
        now = time.monotonic()
        if now - began < float(given[0]) - 1:  # the end of the run is drawn only once
            used, since = cpu_seconds(child.pid) - used_since, now
        elif child.isalive():
            child.send("\r")  # the last frame waits for a key
    child.close()
    return used, since - began, frames


def cpu_seconds(pid: int) -> float:
    """The processor time of a process, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Run the script with and without the view, and print the cost of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rate", type=float, default=200, help="events per second, of all ranks together")
    asked = parser.parse_args()
    pause = asked.ranks * EVENTS / asked.rate / 1.5
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "steady.py"
        script.write_text(SCRIPT, encoding="utf-8")
        print(f"{asked.ranks} ranks, about {asked.rate:.0f} events a second, 120x40")
        for name, options in {"live view": (), "--plain": ("--plain",)}.items():
            used, seconds, frames = watch(script, asked.ranks, str(asked.seconds), str(pause), options=options)
            print(f"{name:12} {100 * used / seconds:5.1f} % of a core, {frames / seconds:4.1f} frames a second")


if __name__ == "__main__":
    main()
