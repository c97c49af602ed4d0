"""When this rank waits for the others to form a further process group."""

import functools
from typing import Any

import torch.distributed as dist
from torch.distributed import device_mesh

from ddpquiz.analysis.events import Forming
from ddpquiz.ranks.inside.event_writer import EventWriter
from ddpquiz.ranks.inside.source_location import locate


def watch(writer: EventWriter) -> None:
    """Report each call of new_group: it connects the members, and ends with a barrier of its own."""
    original = dist.new_group

    @functools.wraps(original)
    def new_group(*args: Any, **kwargs: Any) -> Any:
        file, line = locate()
        members = _members(*args[:1], **kwargs)
        writer.send(Forming(writer.now(), writer.rank, False, file, line, members))
        group = original(*args, **kwargs)
        writer.send(Forming(writer.now(), writer.rank, True, file, line, members))
        return group

    for module in (dist, dist.distributed_c10d, device_mesh):
        if getattr(module, "new_group", None) is original:
            module.new_group = new_group


def _members(ranks: Any = None, *, use_local_synchronization: bool = False, **_: Any) -> tuple[int, ...]:
    """Return whom a call asks for; nothing if only members make it, or if torch will refuse it."""
    if use_local_synchronization:
        return ()
    try:
        return tuple(range(dist.get_world_size())) if ranks is None else tuple(sorted(map(int, ranks)))
    except (TypeError, ValueError, RuntimeError):
        return ()
