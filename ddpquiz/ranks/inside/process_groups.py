"""How this rank enters and leaves its process group: reported to the launcher, and safe from known faults of torch."""

import functools
import os
import sys
import weakref
from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ddpquiz.analysis.events import Joining
from ddpquiz.ranks.inside import torch_private
from ddpquiz.ranks.inside.event_writer import EventWriter
from ddpquiz.ranks.inside.source_location import line_in
from ddpquiz.ranks.messages import RunPlan

_OUTLIVED: set[DistributedDataParallel] = set()  # models that lived when their group was destroyed


def watch(writer: EventWriter, plan: RunPlan, forget_groups: Callable[[], None]) -> None:
    """Report when this rank waits for the others to form a group; call `forget_groups` before each new one."""
    _hold_models()
    original, ranks = dist.init_process_group, int(os.environ["WORLD_SIZE"])

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> None:
        dist.set_debug_level_from_env()  # the script may have set it before it imported torch
        asked = args[0] if args else kwargs.get("backend")
        if plan.backend == "gloo" and asked and "nccl" in str(asked).lower():
            if plan.request.strict:
                sys.exit(f"The script asks for {asked}, and --strict forbids Gloo instead: {plan.no_nccl}.")
            args, kwargs = args[1:], kwargs | {"backend": "gloo"}
            kwargs.pop("device_id", None)
            writer.note(f"The script asks for {asked}; Gloo replaces it on CPU.")
        forget_groups()
        line = line_in(plan.script)
        writer.send(Joining(writer.now(), writer.rank, done=False, line=line))
        original(*args, **kwargs)
        if dist.get_world_size() == ranks and "gloo" in dist.get_backend_config():
            _wait_for_all()  # all members are ranks of ours, and come here too
        writer.send(Joining(writer.now(), writer.rank, done=True, line=line))

    dist.init_process_group = init_process_group


def _wait_for_all() -> None:
    """Return when every rank of the default group is in it.

    Over Gloo a rank may be in while a slower one is still connecting; if the first one leaves at once, the slower one
    fails with "Connection closed by peer".
    """
    store = torch_private.default_store()
    if store is not None:
        if store.add("ddpquiz ranks in", 1) == dist.get_world_size():
            store.set("ddpquiz all in", "yes")
        store.wait(["ddpquiz all in"])


def _hold_models() -> None:
    """Never free a DDP model that lives when its group is destroyed: that deadlocks its rank (pytorch 190489)."""
    models: weakref.WeakSet[DistributedDataParallel] = weakref.WeakSet()
    original_init, original_destroy = DistributedDataParallel.__init__, dist.destroy_process_group

    @functools.wraps(original_init)
    def init(self: DistributedDataParallel, *args: Any, **kwargs: Any) -> None:
        models.add(self)
        original_init(self, *args, **kwargs)

    @functools.wraps(original_destroy)
    def destroy_process_group(*args: Any, **kwargs: Any) -> None:
        _OUTLIVED.update(models)
        original_destroy(*args, **kwargs)

    DistributedDataParallel.__init__ = init
    dist.destroy_process_group = dist.distributed_c10d.destroy_process_group = destroy_process_group


def note_if_open(writer: EventWriter) -> None:
    """Note that the script has ended without leaving its process group, if it has."""
    if dist.is_available() and dist.is_initialized():
        writer.note("The script ends without dist.destroy_process_group(); over NCCL torch warns that this leaks.")
