"""What a rank used: the most memory that it has held, and how long its threads had no core."""

import contextlib
import resource
import sys
from pathlib import Path

from ddpquiz.events.event import CoresMissed, MemoryPeak
from ddpquiz.ranks.inside.event_writer import EventWriter

_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes in which the system counts ru_maxrss


def report_peak_memory(writer: EventWriter) -> None:
    """Report the most bytes that this process has held, and the most that tensors have held on its GPUs."""
    process = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT
    writer.send(MemoryPeak(writer.now(), writer.rank, 0, process, _on_gpus()))


def report_missed_cores(writer: EventWriter, since: float = 0.0) -> None:
    """Report for how many seconds threads were ready to run and did not, without the first `since` of these."""
    if seconds := max(0.0, missed_cores() - since):
        writer.send(CoresMissed(writer.now(), writer.rank, 0, seconds))


def missed_cores() -> float:
    """Seconds for which the threads of this process were ready to run, but no core was free; 0 if that is unknown."""
    nanoseconds = 0
    for path in Path("/proc/self/task").glob("*/schedstat"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # the thread has ended, or the kernel does not count
            nanoseconds += int(path.read_text("ascii").split()[1])
    return nanoseconds / 1e9


def _on_gpus() -> int:
    torch = sys.modules.get("torch")  # a script may not have imported it
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return 0
    return sum(cuda.max_memory_allocated(device) for device in range(cuda.device_count()))
