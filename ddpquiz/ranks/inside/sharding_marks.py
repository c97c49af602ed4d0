"""Where a script shards a model with fully_shard, and whether it shards several layers as a whole."""

import functools
import sys
from collections.abc import Callable
from typing import Any

from ddpquiz.ranks.inside.after_import import after_import

_PACKAGE = "torch.distributed.fsdp"
_DEFINED_IN = f"{_PACKAGE}._fully_shard._fully_shard"
_NAMED_IN = (_DEFINED_IN, f"{_PACKAGE}._fully_shard", _PACKAGE)  # what has been imported by the time of the fork
LAYERS = 2  # modules with parameters of their own, from which on a model is sharded in parts


def watch(mark: Callable[[str], None]) -> None:
    """Report each call of fully_shard, once the script has imported it."""
    after_import(_DEFINED_IN, lambda: _wrap(mark))


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


def _layers(module: Any) -> int:
    """Count the modules with parameters of their own; a list of modules counts as one call that shards in parts."""
    modules = getattr(module, "modules", None)
    if modules is None:
        return 0
    return sum(any(True for _ in each.parameters(recurse=False)) for each in modules())
