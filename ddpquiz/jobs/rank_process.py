"""Whether the process of a rank still runs, as far as that can be seen from here.

The system gives the ID of a process that has ended to a new one, and counts anew after each boot. Each PID namespace
counts for itself, so the same ID in a container of the same host name may be another process.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from ddpquiz.events.event import Recorded

Liveness = Literal["runs", "gone", "unknown"]


class ProcessSpace(NamedTuple):
    """Where numbers of processes mean the same; a text is empty where the system does not say it."""

    host: str
    boot: str
    pids: str  # the PID namespace

    @classmethod
    def here(cls) -> ProcessSpace:
        """The one of this process, as the recorder writes it."""
        return cls(socket.gethostname()[:200], _boot(), _pid_namespace())

    @property
    def is_known(self) -> bool:
        """Whether equal texts mean the same space. Only Linux has PID namespaces."""
        return bool(self.boot and self.pids) or sys.platform != "linux"


def find_process(recorded: Recorded, pid: int, here: ProcessSpace) -> Liveness:
    """Whether the process runs that recorded; "unknown" if it cannot be seen from here."""
    if not pid or not here.is_known or ProcessSpace(recorded.host, recorded.boot, recorded.pids) != here:
        return "unknown"
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):  # the latter for a number that no process has
        return "gone"
    except PermissionError:
        pass  # of another user, and /proc may hide it
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return "unknown"
    slept = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
    began = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return "runs" if fields[0] not in "ZX" and began <= recorded.clock + slept else "gone"


def _boot() -> str:
    """What tells this boot of the machine from others."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def _pid_namespace() -> str:
    """The PID namespace of this process; nothing if /proc shows the numbers of another one."""
    try:
        is_ours = str(Path("/proc/self").readlink()) == str(os.getpid())
        return str(Path("/proc/self/ns/pid").readlink()) if is_ours else ""
    except OSError:
        return ""
