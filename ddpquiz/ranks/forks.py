"""Child processes that are never left behind: each in a group of its own, gone when its parent goes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpquiz.analysis.events import FAULT

if TYPE_CHECKING:
    from collections.abc import Collection

# Has a rank say where it stands. No script waits for this one, while clusters send SIGUSR1 to theirs.
STACK_SIGNAL = getattr(signal, "SIGRTMAX", signal.SIGUSR2)


def fork(work: Any, close: list[int]) -> int:
    """Start a child in a process group of its own that does `work` and nothing of ours; return its process id."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)  # both sides do, so that no kill comes too early
        return pid
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        for reset in (signal.SIGCHLD, signal.SIGHUP):
            signal.signal(reset, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        die_with(parent)
        for fd in close:
            os.close(fd)
        work()
    except BaseException:  # noqa: BLE001  # a fault of ours: it must show, and the child must never return into the server's loop
        sys.excepthook(*sys.exc_info())
    os._exit(FAULT)


def die_with(parent: int) -> None:
    """Make the kernel kill this process when `parent` dies (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER


def children() -> set[int]:
    """Return the process ids of our children (Linux; elsewhere orphans are not ours)."""
    try:
        text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    except OSError:
        return set()
    return {int(pid) for pid in text.split()}


def kill_group(pid: int) -> None:
    """Kill the process group of a child."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def open_files(besides: Collection[int]) -> list[int]:
    """Return the file descriptors that this process holds besides these and the standard streams."""
    listed = map(int, os.listdir("/dev/fd"))  # noqa: PTH208  # which is open itself while it lists
    return [fd for fd in listed if fd > 2 and fd not in besides and _is_open(fd)]


def _is_open(fd: int) -> bool:
    """Whether a file descriptor stands for something."""
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
