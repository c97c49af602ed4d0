"""Reports when the script waits in a store for keys that another rank sets."""

import functools
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch.distributed as dist

from ddpquiz.events.event import StoreWaiting
from ddpquiz.ranks.inside import process_groups
from ddpquiz.ranks.inside.event_writer import EventWriter, printable
from ddpquiz.ranks.inside.source_location import locate, outward

_WAITING = ("get", "wait", "multi_get", "queue_pop", "barrier")
_MOST = 16  # keys that are reported


def watch(writer: EventWriter) -> None:
    """Report each call of the main thread that returns only when keys are set; torch's own form groups, and are not."""
    for name in _WAITING:
        if original := vars(dist.Store).get(name):
            setattr(dist.Store, name, _reporting(name, original, writer))


def _reporting(name: str, original: Callable[..., Any], writer: EventWriter) -> Callable[..., Any]:
    @functools.wraps(original)
    def waiting(store: Any, *args: Any, **kwargs: Any) -> Any:
        if threading.current_thread() is not threading.main_thread() or _forms_a_group(sys._getframe(1)):  # noqa: SLF001
            return original(store, *args, **kwargs)
        keys = _keys_in(args[0] if args else kwargs.get("keys", kwargs.get("key")))
        call = f"store.{name}", keys, *locate()
        writer.send(StoreWaiting(writer.now(), writer.rank, False, *call))
        failed = True
        try:
            result = original(store, *args, **kwargs)
            failed = False
        finally:
            writer.send(StoreWaiting(writer.now(), writer.rank, True, *call, failed=failed))
        return result

    return waiting


def _forms_a_group(frame: FrameType) -> bool:
    return any(each.f_code.co_filename == process_groups.__file__ for each in outward(frame))


def _keys_in(asked: object) -> tuple[str, ...]:
    keys = asked if isinstance(asked, list | tuple) else [asked]
    return tuple(printable(str(key)) for key in keys[:_MOST])
