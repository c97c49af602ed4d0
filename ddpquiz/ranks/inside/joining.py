"""When this rank waits for the others to form the default process group."""

import functools
from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch.distributed import device_mesh

from ddpquiz.events.event import Joining
from ddpquiz.ranks.inside.event_writer import EventWriter
from ddpquiz.ranks.inside.source_location import line_in


def watch(writer: EventWriter, script: str, forget_groups: Callable[[], None], joined: Callable[[], object]) -> None:
    """Report each forming of the default group; call `forget_groups` before it, and `joined` after it."""
    original = dist.init_process_group

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> None:
        forget_groups()
        line = line_in(script)
        writer.send(Joining(writer.now(), writer.rank, done=False, line=line))
        original(*args, **kwargs)
        joined()
        writer.send(Joining(writer.now(), writer.rank, done=True, line=line))

    for module in (dist, dist.distributed_c10d, device_mesh):
        if getattr(module, "init_process_group", None) is original:
            module.init_process_group = init_process_group


def default_group() -> tuple[int, int, str] | None:
    """Return the rank of this process, the number of ranks and the backend; None as long as there is no group.

    Where each device has a backend of its own, that is NCCL if it is one of them.
    """
    if not (dist.is_available() and dist.is_initialized()):
        return None
    backends = {each.rpartition(":")[2] for each in str(dist.get_backend_config()).split(",")}
    return dist.get_rank(), dist.get_world_size(), "nccl" if "nccl" in backends else min(backends)
