"""What the operating system knows of other processes: processor time, whether they are stopped, memory kills."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def kernel_kills() -> int:
    """Return how many processes the kernel has killed because memory ran out (Linux; elsewhere 0)."""
    try:
        return int(Path("/proc/vmstat").read_text().partition("\noom_kill ")[2].split("\n")[0] or 0)
    except OSError:
        return 0


def family(pid: int) -> Iterator[int]:
    """Yield a process and its living descendants (elsewhere than on Linux: only itself)."""
    yield pid
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the process has just ended
            for child in listed.read_text().split():
                yield from family(int(child))


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process and of its children that have ended."""
    if stat := _stat(pid):
        return sum(map(int, stat[11:15])) / os.sysconf("SC_CLK_TCK")
    if sys.platform == "linux":
        return 0.0
    asked = subprocess.run(["ps", "-o", "time=", "-p", str(pid)], capture_output=True, text=True, check=False)
    minutes, _, seconds = asked.stdout.strip().rpartition(":")
    return 60 * float(minutes.rpartition(":")[2] or 0) + float(seconds or 0)


def is_stopped(pid: int) -> bool:
    """Return whether a signal has stopped a process (elsewhere than on Linux: False)."""
    return bool(stat := _stat(pid)) and stat[0] in "Tt"


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on; none when the process is gone, and on other systems."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
