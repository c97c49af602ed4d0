"""Points of a training script that show what its communication is for."""

import contextlib
import functools
import zlib
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import DistributedSampler

from ddpquiz.analysis.events import Marked
from ddpquiz.ranks.inside import sharding_marks
from ddpquiz.ranks.inside.event_writer import EventWriter
from ddpquiz.ranks.inside.read_marks import Reads
from ddpquiz.ranks.inside.source_location import line_in

STEPS = 8  # after which the random numbers of the ranks are compared


def watch(writer: EventWriter, script: str) -> None:
    """Report what a script does with DDP, optimizers and samplers."""

    def mark(what: str) -> None:
        writer.send(Marked(writer.now(), writer.rank, what, line_in(script)))

    draws, reads = _Draws(mark), Reads(mark)
    for each in (draws, reads):
        register_optimizer_step_post_hook(lambda *_, each=each: each.step())
    sharding_marks.watch(mark)
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
    _watch_samplers(mark, draws)


class _Draws:
    """Reports steps, and for the first ones what random numbers the script draws between two steps of an epoch.

    Equal reports mean that ranks draw equal numbers.
    """

    def __init__(self, mark: Callable[[str], None]) -> None:
        self.mark, self.left, self.last, self.steps = mark, STEPS, 0, 0

    def step(self) -> None:
        self.mark("step")
        self.steps += 1
        if not self.left:
            return
        with contextlib.suppress(Exception):  # another default generator has another state
            state = zlib.crc32(torch.random.get_rng_state().numpy().tobytes())
            if self.last not in (0, state):
                self.mark(f"drew {state:08x}")
            self.last, self.left = state, self.left - 1

    def begin_epoch(self) -> None:
        """Note that a DataLoader draws a seed now, which is no random number of the model."""
        self.last = 0


def _watch_samplers(mark: Callable[[str], None], draws: _Draws) -> None:
    """Report where a sampler that shuffles begins the order once more for which the script has trained before."""
    original, epochs = DistributedSampler.__iter__, WeakKeyDictionary[Any, "_Order"]()

    @functools.wraps(original)
    def iterate(sampler: Any) -> Any:
        draws.begin_epoch()
        order = original(sampler)
        with contextlib.suppress(Exception):  # a subclass may have other attributes, or no hash
            before, key = epochs.get(sampler), (sampler.seed, sampler.epoch)
            if sampler.shuffle and before and before.key == key and before.is_trained:
                mark("same_order")
            order = epochs[sampler] = _Order(order, key, draws)
        return order

    DistributedSampler.__iter__ = iterate


class _Order:
    """The order of samples in one epoch; `is_trained` if optimizers made steps while it was read.

    An evaluation that reads the same order each time is right.
    """

    def __init__(self, samples: Iterator[int], key: tuple[int, int], draws: _Draws) -> None:
        self.samples, self.key, self.draws = samples, key, draws
        self.is_trained, self._steps = False, -1

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self.is_trained = self.is_trained or self.draws.steps > self._steps >= 0
        self._steps = self.draws.steps
        return next(self.samples)

    def __reduce__(self) -> Any:
        return self.samples.__reduce__()  # copies and pickles are those of the original
