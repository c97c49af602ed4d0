"""How a rank enters and leaves its process groups: reported to the launcher, and safe from known faults of torch."""

import functools
import inspect
import os
import sys
import weakref
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import torch
import torch.distributed as dist
from torch.distributed import device_mesh
from torch.nn.parallel import DistributedDataParallel

from ddpquiz.events.event import Forming, Joining
from ddpquiz.ranks.inside import torch_private
from ddpquiz.ranks.inside.event_writer import EventWriter
from ddpquiz.ranks.inside.source_location import line_in, locate
from ddpquiz.ranks.installed_torch import major_minor
from ddpquiz.ranks.messages import RunPlan

_OUTLIVED: set[object] = set()  # models that lived when their group was destroyed, and on old torch the groups
_HANGS = major_minor(torch.__version__) < (2, 8)  # its main thread joins one of Gloo, which waits for the GIL
_NOTE = (
    "The script calls destroy_process_group(). Over Gloo, torch {version} hangs there in about half of all jobs{but}."
)


def watch_launched(writer: EventWriter, plan: RunPlan, forget_groups: Callable[[], None]) -> None:
    """Report when this rank waits for the others to form a group; call `forget_groups` before each new one."""
    _hold_models(writer)
    original, ranks = dist.init_process_group, int(os.environ["WORLD_SIZE"])

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> None:
        dist.set_debug_level_from_env()  # the script may have set it before it imported torch
        asked = args[0] if args else kwargs.get("backend")
        if plan.backend == "gloo" and plan.request.replaces_nccl and "nccl" in str(asked).lower():
            if plan.request.strict:
                sys.exit(f"The script asks for {asked}, and --strict forbids Gloo instead: {plan.no_nccl}.")
            args, kwargs = args[1:], kwargs | {"backend": "gloo"}
            kwargs.pop("device_id", None)
            writer.note(f"The script asks for {asked}; Gloo replaces it on CPU.")
        forget_groups()
        line, asked = line_in(plan.script), _asked(original, args, kwargs)
        writer.send(Joining(writer.now(), writer.rank, False, line, *asked))
        original(*args, **kwargs)
        if dist.get_world_size() == ranks and "gloo" in dist.get_backend_config():
            _wait_for_all()  # all members are ranks of ours, and come here too
        writer.send(Joining(writer.now(), writer.rank, done=True, line=line))

    dist.init_process_group = init_process_group


def _wait_for_all() -> None:
    """When every rank of the default group is in it.

    Over Gloo a rank may be in while a slower one is still connecting; if the first one leaves at once, the slower one
    fails with "Connection closed by peer".
    """
    store = torch_private.default_store()
    if store is not None:
        if store.add("ddpquiz ranks in", 1) == dist.get_world_size():
            store.set("ddpquiz all in", "yes")
        store.wait(["ddpquiz all in"])


def _hold_models(writer: EventWriter) -> None:
    """Never free a DDP model that lives when its group is destroyed: that deadlocks its rank (pytorch 190489).

    Nor free the groups, where that may hang.
    """
    models: weakref.WeakSet[DistributedDataParallel] = weakref.WeakSet()
    original_init = DistributedDataParallel.__init__

    @functools.wraps(original_init)
    def init(self: DistributedDataParallel, *args: Any, **kwargs: Any) -> None:
        models.add(self)
        original_init(self, *args, **kwargs)

    def hold() -> None:
        _OUTLIVED.update(models)
        if _HANGS:
            _OUTLIVED.update(torch_private.groups())
            _note_hang(writer, " under torchrun; this run keeps its groups, and so it ends")

    DistributedDataParallel.__init__ = init
    _before_destroy(hold)


def _note_hang(writer: EventWriter, but: str = "") -> None:
    """Note that destroy_process_group, which is called now, may hang in this torch."""
    if (group := default_group()) and group[2] == "gloo":
        writer.note(_NOTE.format(version=torch.__version__, but=but))


def _before_destroy(action: Callable[[], None]) -> None:
    """Do something whenever a group is destroyed, first."""
    original = dist.destroy_process_group

    @functools.wraps(original)
    def destroy_process_group(*args: Any, **kwargs: Any) -> None:
        action()
        original(*args, **kwargs)

    dist.destroy_process_group = dist.distributed_c10d.destroy_process_group = destroy_process_group


def note_if_open(writer: EventWriter) -> None:
    """Note that the script has ended without leaving its process group, if it has."""
    if dist.is_available() and dist.is_initialized():
        writer.note("The script ends without dist.destroy_process_group(); over NCCL torch warns that this leaks.")


def watch_joining(
    writer: EventWriter, script: str, forget_groups: Callable[[], None], joined: Callable[[], object]
) -> None:
    """Report each forming of the default group; call `forget_groups` before it, and `joined` after it."""
    if _HANGS:
        _before_destroy(lambda: _note_hang(writer))
    original = dist.init_process_group

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> None:
        forget_groups()
        line, asked = line_in(script), _asked(original, args, kwargs)
        writer.send(Joining(writer.now(), writer.rank, False, line, *asked))
        original(*args, **kwargs)
        joined()
        writer.send(Joining(writer.now(), writer.rank, done=True, line=line))

    for module in (dist, dist.distributed_c10d, device_mesh):
        if getattr(module, "init_process_group", None) is original:
            module.init_process_group = init_process_group


def _asked(original: Callable[..., None], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, int | None, str]:
    """How many ranks a call of init_process_group asks for, which of them it is to be, and where it meets them."""
    try:
        asked: dict[str, Any] = inspect.signature(original).bind(*args, **kwargs).arguments
    except TypeError:  # torch will refuse it
        return 0, None, ""
    url = urlsplit(str(asked.get("init_method") or "env://"))
    query, environ = dict(parse_qsl(url.query)), os.environ
    address = f"{environ.get('MASTER_ADDR', '')}:{environ.get('MASTER_PORT', '')}"
    if asked.get("store") is not None:
        address = "a store of its own"
    elif url.scheme != "env":
        address = f"{url.scheme}://{url.netloc}{url.path}"
    sizes = asked.get("world_size", -1), query.get("world_size", ""), environ.get("WORLD_SIZE", "")
    ranks = asked.get("rank", -1), query.get("rank", ""), environ.get("RANK", "")
    address = address[:200] if address.isprintable() else ""
    return _first_number(sizes) or 0, _first_number(ranks), address


def _first_number(values: tuple[object, ...]) -> int | None:
    """The first value that is a number and not negative."""
    return next((int(value) for value in map(str, values) if value.isdecimal() and len(value) < 10), None)


def default_group() -> tuple[int, int, str] | None:
    """The rank of this process, the number of ranks and the backend; None as long as there is no group.

    Where each device has a backend of its own, that is NCCL if it is one of them.
    """
    if not (dist.is_available() and dist.is_initialized()):
        return None
    backends = {each.rpartition(":")[2] for each in str(dist.get_backend_config()).split(",")}
    return dist.get_rank(), dist.get_world_size(), "nccl" if "nccl" in backends else min(backends)


def watch_new_groups(writer: EventWriter) -> None:
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
