"""Where a script shards a model, with fully_shard or with FSDP, and whether it shards several layers as a whole."""

import functools
import sys
from collections.abc import Callable
from typing import Any

from ddpquiz.ranks.inside.after_import import after_import

_PACKAGE = "torch.distributed.fsdp"
_DEFINED_IN = f"{_PACKAGE}._fully_shard._fully_shard"
_NAMED_IN = (_DEFINED_IN, f"{_PACKAGE}._fully_shard", _PACKAGE)  # what has been imported by the time of the fork
_FSDP = f"{_PACKAGE}.fully_sharded_data_parallel"
LAYERS = 2  # modules with parameters of their own, from which on a model is sharded in parts


def watch(mark: Callable[[str], None]) -> None:
    """Report each model that is sharded, once the script has imported what shards it."""
    after_import(_DEFINED_IN, lambda: _wrap(mark))
    after_import(_FSDP, lambda: _wrap_fsdp(mark))


def _wrap(mark: Callable[[str], None]) -> None:
    original = getattr(sys.modules[_DEFINED_IN], "fully_shard", None)
    if original is None:  # torch has another name for it by now
        return

    @functools.wraps(original)
    def fully_shard(module: Any, *args: Any, **kwargs: Any) -> Any:
        layers = _layers(module)
        sharded = original(module, *args, **kwargs)
        mark("shard_many" if layers >= LAYERS else "shard")
        return sharded

    for name in _NAMED_IN:
        if getattr(sys.modules.get(name), "fully_shard", None) is original:
            sys.modules[name].fully_shard = fully_shard  # type: ignore[attr-defined]


def _wrap_fsdp(mark: Callable[[str], None]) -> None:
    """Watch FullyShardedDataParallel, which makes one for each block by itself if it is given a policy."""
    kind = getattr(sys.modules[_FSDP], "FullyShardedDataParallel", None)
    if kind is None:
        return
    original = kind.__init__

    @functools.wraps(original)
    def init(model: Any, module: Any, *args: Any, **kwargs: Any) -> None:
        layers = _layers(module)
        original(model, module, *args, **kwargs)
        if getattr(getattr(model, "sharding_strategy", None), "name", "") != "NO_SHARD":
            mark("shard_many" if layers >= LAYERS else "shard")

    kind.__init__ = init


def _layers(module: Any) -> int:
    """Count the modules with parameters of their own; a list of modules counts as one call that shards in parts."""
    modules = getattr(module, "modules", None)
    if modules is None:
        return 0
    return sum(any(True for _ in each.parameters(recurse=False)) for each in modules())
