"""Child processes that never outlive us, and what the operating system knows of them.

Each is in a session and a process group of its own, and is killed when its parent dies.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from ddpquiz.errors import FAULT

# Makes a rank write its stack. Scripts rarely use this signal, while clusters send SIGUSR1 to theirs.
STACK_SIGNAL = getattr(signal, "SIGRTMAX", signal.SIGUSR2)
# Makes a rank write the stacks of all its threads (process_stacks.py), into a file in memory with this name.
THREADS_SIGNAL = signal.SIGRTMAX - 1 if hasattr(signal, "SIGRTMAX") else None
# On Linux, a thread of the rank answers both, which needs Python's lock. These are for a rank that holds that lock for
# long, in C: they write the same at once. They may crash a rank that runs Python (see inside/main_thread.py).
STACK_BY_FORCE = signal.SIGRTMAX - 2 if hasattr(signal, "SIGRTMAX") else None
THREADS_BY_FORCE = signal.SIGRTMAX - 3 if hasattr(signal, "SIGRTMAX") else None
MEMORY_FILE = "ddpquiz-stacks-of-rank-"
LARGE_PAGE = 1 << 21  # bytes
MADV_COLLAPSE = 25


def fork(work: Callable[[], Any], close: list[int]) -> int:
    """Fork a child that leads a session, closes the descriptors in `close` and calls `work`; return its id."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for reset in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):  # even if our shell ignores them
            signal.signal(reset, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        die_with(parent)
        for fd in close:
            os.close(fd)
        work()
    except BaseException:  # noqa: BLE001  # a bug of ours: show it, and never return into the server's loop
        sys.excepthook(*sys.exc_info())
    os._exit(FAULT)


def use_large_pages() -> None:
    """Move the memory of this process to large pages, so that a fork has few to copy the addresses of (Linux 6.1).

    A rank then starts and ends in half of the time that the kernel would need otherwise. The move takes up to half a
    second where memory is fragmented.
    """
    if sys.platform != "linux":
        return
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, rights, _, _, inode, *_ = line.split()
        if rights == "rw-p" and inode == "0":  # of no file
            start, end = (int(address, 16) for address in addresses.split("-"))
            for page in range(-(-start // LARGE_PAGE) * LARGE_PAGE, end - LARGE_PAGE + 1, LARGE_PAGE):
                madvise(page, LARGE_PAGE, MADV_COLLAPSE)  # fails on an older kernel, where nothing is changed


def die_with(parent: int | None) -> None:
    """Make the kernel kill this process when the thread of `parent` that forked it ends (Linux); None: not any more."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, 0 if parent is None else signal.SIGKILL)  # PR_SET_PDEATHSIG
        if parent is not None and os.getppid() != parent:
            os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER


def children(parent: int | str = "self") -> set[int]:
    """The process ids of our children, or of another process's (Linux; elsewhere orphans do not become ours)."""
    found: set[int] = set()
    for listed in Path(f"/proc/{parent}/task").glob("*/children"):  # each thread has a list of its own
        with contextlib.suppress(OSError):  # the process has just ended
            found.update(map(int, listed.read_text().split()))
    return found


def kill_orphans(known: Collection[int]) -> None:
    """Kill our children that are not in `known`: orphans that we adopted.

    Those that remove the named shared memory of dead processes end by themselves: Python's are awaited; torch's, which
    may take 2 s, are not.
    """
    spared: dict[int, bytes] = {}
    while orphans := children() - {*known} - spared.keys():  # each one that dies may leave us another
        for pid in orphans:
            if cleaner := _cleaner(pid):
                spared[pid] = cleaner
            else:
                _kill_and_reap(pid)
    awaited = {pid for pid, name in spared.items() if name == _PYTHONS_CLEANER}
    late = time.monotonic() + _CLEANING
    while awaited and time.monotonic() < late:
        awaited -= {pid for pid in awaited if _has_ended(pid)}
        time.sleep(_LOOK if awaited else 0)
    for pid in awaited:
        _kill_and_reap(pid)


_CLEANING = 1.5  # seconds; the launcher waits longer for the server
_LOOK = 0.003
_PYTHONS_CLEANER, _TORCHS_CLEANER = b"multiprocessing.resource_tracker", b"torch_shm_manager"


def _cleaner(pid: int) -> bytes:
    """The cleaner that a process is, by its command line; b"" for any other process, and for one that has ended."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
    return next((name for name in (_PYTHONS_CLEANER, _TORCHS_CLEANER) if name in command), b"")


def _has_ended(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    return True


def _kill_and_reap(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def kill_child(pid: int) -> None:
    """Kill a child. What it started becomes ours, for `kill_orphans`; elsewhere than on Linux, its group dies too."""
    kills = [os.kill] if sys.platform == "linux" else [os.killpg, os.kill]  # it may not lead its group yet
    for kill in kills:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def kill_rest(pid: int) -> None:
    """Kill what a child that has ended left in its group, where that does not become ours (not on Linux)."""
    if sys.platform != "linux":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def signal_if_handled(pid: int, number: int) -> None:
    """Send a signal to a process that handles it. It would end any other, such as a program that a rank has become.

    Elsewhere than on Linux, what a process handles is unknown, and it is sent to all.
    """
    with contextlib.suppress(OSError):  # it has just ended
        handled = -1
        if sys.platform == "linux":
            handled = int(Path(f"/proc/{pid}/status").read_text().partition("SigCgt:")[2].split()[0], 16)
        if handled >> number - 1 & 1:
            os.kill(pid, number)


def open_files(besides: Collection[int]) -> list[int]:
    """The descriptors that this process has open, without `besides` and the standard streams."""
    listed = map(int, os.listdir("/dev/fd"))  # noqa: PTH208  # the listing itself is open meanwhile
    return [fd for fd in listed if fd > 2 and fd not in besides and _is_open(fd)]


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def oom_kills() -> int:
    """How many processes the kernel has killed because memory ran out (Linux; elsewhere 0)."""
    try:
        return int(Path("/proc/vmstat").read_text().partition("\noom_kill ")[2].split("\n")[0] or 0)
    except OSError:
        return 0


def process_tree(pid: int) -> Iterator[int]:
    """Yield a process and its living descendants (elsewhere than on Linux: only itself)."""
    yield pid
    for child in children(pid):
        yield from process_tree(child)


def main_thread_seconds(pid: int) -> float:
    """The processor time of the main thread of a process (elsewhere than on Linux: of the whole process)."""
    if stat := _stat(f"{pid}/task/{pid}"):
        return sum(map(int, stat[11:13])) / os.sysconf("SC_CLK_TCK")
    return cpu_seconds(pid)


def cpu_seconds(pid: int) -> float:
    """The processor time of a process and of its children that have ended."""
    if stat := _stat(pid):
        return sum(map(int, stat[11:15])) / os.sysconf("SC_CLK_TCK")
    if sys.platform == "linux":
        return 0.0
    asked = subprocess.run(["ps", "-o", "time=", "-p", str(pid)], capture_output=True, text=True, check=False)
    minutes, _, seconds = asked.stdout.strip().rpartition(":")
    return 60 * float(minutes.rpartition(":")[2] or 0) + float(seconds or 0)


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped a process (elsewhere than on Linux: False)."""
    return bool(stat := _stat(pid)) and stat[0] in "Tt"


def waits_for_disk(pid: int) -> bool:
    """Whether a process sleeps in a way that signals do not end, as while a disk works (elsewhere: False)."""
    return bool(stat := _stat(pid)) and stat[0] == "D"


def _stat(pid: int | str) -> list[str]:
    """The fields of /proc/PID/stat from the state on; none when the process is gone, and on other systems."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
