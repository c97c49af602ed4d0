"""How long a key takes to show on the screen in a sitting, and how much memory the sitting takes.

    python benchmarks/keys.py [--keys 200]

`study` and `test` run in a pseudo-terminal with the shipped content. A key is answered when a whole frame has come:
each ends synchronized output. The memory is the largest that the process ever held, without its server of ranks.
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
    "study": (["study", "--new", "200", "--limit", "200"], [" ", "3"]),
    "test": (["test", "--kind", "choice", "--count", "100"], ["1", "\r"]),
}


def sitting(words: list[str], keys: list[str], count: int) -> tuple[list[float], float]:
    """Press keys in turn; return the seconds that each took, and the memory in megabytes."""
    with tempfile.TemporaryDirectory(prefix="ddpquiz-bench-") as home:
        environment = {**os.environ, "DDPQUIZ_HOME": home, "TERM": "xterm-256color"}
        command = ["-m", "ddpquiz", *words]
        child = pexpect.spawn(
            sys.executable, command, env=environment, dimensions=(24, 80), timeout=30, encoding="utf-8"
        )
        child.delaybeforesend = None
        child.expect_exact(FRAME_ENDS)
        time.sleep(3)  # until torch is imported beside it
        took = []
        for number in range(count):
            began = time.perf_counter()
            child.send(keys[number % len(keys)])
            child.expect_exact(FRAME_ENDS)
            took.append(time.perf_counter() - began)
        status = Path(f"/proc/{child.pid}/status").read_text("utf-8")
        child.close(force=True)
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return took, int(peak.split()[1]) / 1024


def main() -> None:
    """Measure both sittings and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--keys", type=int, default=200)
    count = parser.parse_args().keys
    print(f"{'sitting':8} {'keys':>5} {'p50 ms':>8} {'p95 ms':>8} {'max ms':>8} {'MB':>6}")
    for name, (words, keys) in SITTINGS.items():
        took, memory = sitting(words, keys, count)
        p95 = statistics.quantiles(took, n=20)[-1]
        figures = (statistics.median(took), p95, max(took))
        print(f"{name:8} {len(took):5} {' '.join(f'{1000 * each:8.1f}' for each in figures)} {memory:6.0f}")


if __name__ == "__main__":
    main()
