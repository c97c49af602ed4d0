"""Points of a training script that show what its communication is for."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import DistributedSampler

from ddpquiz.analysis.events import Marked
from ddpquiz.ranks.inside.event_writer import EventWriter
from ddpquiz.ranks.inside.source_location import line_in


def watch(writer: EventWriter, script: str) -> None:
    """Report what a script does with DDP, optimizers and samplers."""

    def mark(what: str) -> None:
        writer.send(Marked(writer.now(), writer.rank, what, line_in(script)))

    register_optimizer_step_post_hook(lambda *_: mark("step"))
    original = DistributedDataParallel.no_sync

    @contextlib.contextmanager
    @functools.wraps(original)
    def no_sync(model: Any) -> Iterator[None]:
        with original(model):
            mark("no_sync")
            try:
                yield
            finally:
                mark("sync")

    DistributedDataParallel.no_sync = no_sync
    original_init = DistributedDataParallel.__init__

    @functools.wraps(original_init)
    def init(model: Any, *args: Any, **kwargs: Any) -> None:
        original_init(model, *args, **kwargs)
        mark("ddp")

    DistributedDataParallel.__init__ = init
    _watch_samplers(mark)


def _watch_samplers(mark: Callable[[str], None]) -> None:
    """Report where a sampler that shuffles begins the order once more that it has given before."""
    original, epochs = DistributedSampler.__iter__, WeakKeyDictionary[Any, Any]()

    @functools.wraps(original)
    def iterate(sampler: Any) -> Any:
        with contextlib.suppress(Exception):  # a subclass may have other attributes, or no hash
            if sampler.shuffle and epochs.get(sampler) == (sampler.seed, sampler.epoch):
                mark("same_order")
            epochs[sampler] = sampler.seed, sampler.epoch
        return original(sampler)

    DistributedSampler.__iter__ = iterate
