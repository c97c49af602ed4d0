"""Measure how long a key takes to show on the screen in a sitting, and how much memory the sitting uses.

    python benchmarks/keys.py [--keys 200]

`study` and `test` run in a pseudo-terminal with the shipped content. A key has been handled when a whole frame has
arrived; each frame ends with the end of synchronized output. The memory is the peak of the process, without its server
of ranks.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import pexpect

FRAME_ENDS = "\x1b[?2026l"
SITTINGS = {
    "study": (["study", "--new", "200", "--count", "200"], [" ", "3"]),
    "test": (["test", "--kind", "choice", "--count", "100"], ["1", "\r"]),
}


def sitting(words: list[str], keys: list[str], count: int) -> tuple[list[float], float]:
    """Press `keys` in turn, `count` in all; return the seconds for each of them, and the peak memory in megabytes."""
    with tempfile.TemporaryDirectory(prefix="ddpquiz-bench-") as home:
        environment = {**os.environ, "DDPQUIZ_HOME": home, "TERM": "xterm-256color"}
        command = ["-m", "ddpquiz", *words]
        child = pexpect.spawn(
            sys.executable, command, env=environment, dimensions=(24, 80), timeout=30, encoding="utf-8"
        )
        child.delaybeforesend = None
        child.expect_exact(FRAME_ENDS)
        time.sleep(3)  # until the server in the background has imported torch
        seconds = []
        for number in range(count):
            began = time.perf_counter()
            child.send(keys[number % len(keys)])
            child.expect_exact(FRAME_ENDS)
            seconds.append(time.perf_counter() - began)
        status = Path(f"/proc/{child.pid}/status").read_text("utf-8")
        child.close(force=True)
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return seconds, int(peak.split()[1]) / 1024


def main() -> None:
    """Measure both sittings and print a table of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--keys", type=int, default=200)
    count = parser.parse_args().keys
    print(f"{'sitting':8} {'keys':>5} {'p50 ms':>8} {'p95 ms':>8} {'max ms':>8} {'MB':>6}")
    for name, (words, keys) in SITTINGS.items():
        seconds, memory = sitting(words, keys, count)
        p95 = statistics.quantiles(seconds, n=20)[-1]
        figures = (statistics.median(seconds), p95, max(seconds))
        print(f"{name:8} {len(seconds):5} {' '.join(f'{1000 * each:8.1f}' for each in figures)} {memory:6.0f}")


if __name__ == "__main__":
    main()
