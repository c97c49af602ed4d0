"""Reports calls that send Python objects: what they do besides their collectives, such as pickling, is no computing."""

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from ddpquiz.events.event import ObjectsSent
from ddpquiz.ranks.inside.event_writer import EventWriter
from ddpquiz.ranks.inside.source_location import locate

_NAMES = (
    "all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list", "send_object_list",
    "recv_object_list",
)  # fmt: skip


def watch(writer: EventWriter) -> None:
    """Report when the main thread enters and leaves such a call."""
    for name in _NAMES:
        if original := getattr(dist, name, None):
            reporting = _reporting(name, original, writer)
            setattr(dist, name, reporting)
            setattr(dist.distributed_c10d, name, reporting)


def _reporting(name: str, original: Callable[..., Any], writer: EventWriter) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            return original(*args, **kwargs)
        place = locate()
        writer.send(ObjectsSent(writer.now(), writer.rank, False, name, *place))
        try:
            return original(*args, **kwargs)
        finally:
            writer.send(ObjectsSent(writer.now(), writer.rank, True, name, *place))

    return call
