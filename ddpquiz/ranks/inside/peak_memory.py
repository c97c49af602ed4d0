"""The most memory that a rank has held, reported at its end."""

import resource
import sys

from ddpquiz.analysis.events import Marked
from ddpquiz.ranks.inside.event_writer import EventWriter

UNIT = 1 if sys.platform == "darwin" else 1024  # bytes in which the system counts ru_maxrss


def report(writer: EventWriter) -> None:
    """Report the most bytes that this process has held, and the most that tensors have held on its GPUs."""
    process = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT
    writer.send(Marked(writer.now(), writer.rank, f"memory {process} {_on_gpus()}", 0))


def _on_gpus() -> int:
    torch = sys.modules.get("torch")  # a script may not have imported it
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return 0
    return sum(cuda.max_memory_allocated(device) for device in range(cuda.device_count()))
