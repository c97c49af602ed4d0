"""What a training script does that its communication does not show, reported as marks.

DDP, samplers, fully_shard and FSDP are wrapped, optimizers have hooks, and for a while the methods by which a script
reads a tensor are wrapped too. What a script forgot is judged from the marks of all ranks, in
events/silent_faults.py and events/advice.py.
"""

import atexit
import contextlib
import functools
import os
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import DistributedSampler

from ddpquiz.events.event import (
    Mark,
    ModelSharded,
    ModelWrapped,
    OptimizerStep,
    OrderRepeated,
    RandomDraw,
    SyncPaused,
    SyncResumed,
    TensorRead,
    ThreadCount,
)
from ddpquiz.ranks.inside import replica_drift
from ddpquiz.ranks.inside.after_import import after_import
from ddpquiz.ranks.inside.event_writer import EventWriter
from ddpquiz.ranks.inside.source_location import is_own, line_in

_DRAWS = 8  # steps whose random numbers are compared
_LAYERS = 2  # modules with parameters of their own, from which on a model is sharded in parts
_OFTEN = 20  # steps one after the other in which a line reads
_PATIENCE = 200  # steps after which nothing that reads is watched any more
_READS = {"item": "item()", "tolist": "tolist()", "cpu": "cpu()", "__float__": "float()", "__repr__": "print()",
          "__format__": "print()"}  # fmt: skip
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_PACKAGE = "torch.distributed.fsdp"
_DEFINED_IN = f"{_PACKAGE}._fully_shard._fully_shard"
_NAMED_IN = (_DEFINED_IN, f"{_PACKAGE}._fully_shard", _PACKAGE)  # what has been imported by the time of the fork
_FSDP = f"{_PACKAGE}.fully_sharded_data_parallel"

_Marker = Callable[..., None]  # sends a mark of a class, at the line of the script that runs now, with its details


def watch(writer: EventWriter, script: str) -> None:
    """Report what a script does with DDP, optimizers and samplers."""

    def mark(kind: Callable[..., Mark], *details: object) -> None:
        writer.send(kind(writer.now(), writer.rank, line_in(script), *details))

    draws, reads, drift = _Draws(mark), _Reads(writer), replica_drift.watch(mark, writer)
    register_optimizer_step_post_hook(
        lambda optimizer, *_: draws.step(drift.after_step(optimizer), shards=_updates_shards(optimizer))
    )
    register_optimizer_step_post_hook(lambda *_: reads.step())
    _watch_sharding(mark)
    original = DistributedDataParallel.no_sync

    @contextlib.contextmanager
    @functools.wraps(original)
    def no_sync(model: Any) -> Iterator[None]:
        with original(model):
            mark(SyncPaused)
            before = drift.before_block(model)
            try:
                yield
            finally:
                mark(SyncResumed, drift.changed_in(model, before))

    DistributedDataParallel.no_sync = no_sync
    original_init = DistributedDataParallel.__init__

    @functools.wraps(original_init)
    def init(model: Any, *args: Any, **kwargs: Any) -> None:
        original_init(model, *args, **kwargs)
        mark(ModelWrapped)

    DistributedDataParallel.__init__ = init
    _watch_samplers(mark, draws)
    _watch_threads(writer, script)


def _watch_threads(writer: EventWriter, script: str) -> None:
    """Report at the end with how many threads a rank computes, if the script has changed that or the launcher has."""
    original, line = torch.set_num_threads, 0

    @functools.wraps(original)
    def set_num_threads(threads: int) -> None:
        nonlocal line
        original(threads)
        line = line_in(script)

    def report() -> None:
        ranks, threads = os.environ.get("LOCAL_WORLD_SIZE", ""), torch.get_num_threads()
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0
        if ranks.isdecimal() and threads > 1 and cores:
            writer.send(ThreadCount(writer.now(), writer.rank, line, threads, int(ranks), cores))

    torch.set_num_threads = set_num_threads
    atexit.register(report)


class _Draws:
    """Reports steps, and for the first ones what random numbers the script draws between two steps of an epoch.

    Equal reports mean that ranks draw equal numbers.
    """

    def __init__(self, mark: _Marker) -> None:
        self.mark, self.left, self.last, self.steps = mark, _DRAWS, 0, 0

    def step(self, models: tuple[int, ...], *, shards: bool) -> None:
        self.mark(OptimizerStep, models, shards)
        self.steps += 1
        if not self.left:
            return
        with contextlib.suppress(Exception):  # another default generator has another state
            state = zlib.crc32(torch.random.get_rng_state().numpy().tobytes())
            if self.last not in (0, state):
                self.mark(RandomDraw, f"{state:08x}")
            self.last, self.left = state, self.left - 1

    def begin_epoch(self) -> None:
        """Note that a DataLoader draws a seed now, which is no random number of the model."""
        self.last = 0


def _watch_samplers(mark: _Marker, draws: _Draws) -> None:
    """Report where a sampler that shuffles begins the order once more for which the script has trained before."""
    original, epochs = DistributedSampler.__iter__, WeakKeyDictionary[Any, "_Order"]()

    @functools.wraps(original)
    def iterate(sampler: Any) -> Any:
        draws.begin_epoch()
        order = original(sampler)
        with contextlib.suppress(Exception):  # a subclass may have other attributes, or no hash
            before, key = epochs.get(sampler), (sampler.seed, sampler.epoch)
            if sampler.shuffle and before and before.key == key and before.is_trained:
                mark(OrderRepeated)
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


def _watch_sharding(mark: _Marker) -> None:
    """Report each model that is sharded, once the script has imported what shards it."""
    after_import(_DEFINED_IN, lambda: _wrap_fully_shard(mark))
    after_import(_FSDP, lambda: _wrap_fsdp(mark))


def _wrap_fully_shard(mark: _Marker) -> None:
    original = getattr(sys.modules[_DEFINED_IN], "fully_shard", None)
    if original is None:  # torch has another name for it by now
        return

    @functools.wraps(original)
    def fully_shard(module: Any, *args: Any, **kwargs: Any) -> Any:
        layers = _layers(module)
        sharded = original(module, *args, **kwargs)
        mark(ModelSharded, layers >= _LAYERS)
        return sharded

    for name in _NAMED_IN:
        if getattr(sys.modules.get(name), "fully_shard", None) is original:
            sys.modules[name].fully_shard = fully_shard  # type: ignore[attr-defined]


def _wrap_fsdp(mark: _Marker) -> None:
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
            mark(ModelSharded, layers >= _LAYERS)

    kind.__init__ = init


def _updates_shards(optimizer: Any) -> bool:
    """Whether an optimizer updates shards of a model that all ranks hold together, by its first parameter."""
    with contextlib.suppress(Exception):  # a script's own optimizer may be of any form
        mesh = getattr(optimizer.param_groups[0]["params"][0], "device_mesh", None)  # of a DTensor
        return mesh is not None and mesh.size() == dist.get_world_size()
    return False


def _layers(module: Any) -> int:
    """Count the modules with parameters of their own; a list of modules counts as one call that shards in parts."""
    modules = getattr(module, "modules", None)
    if modules is None:
        return 0
    return sum(any(True for _ in layer.parameters(recurse=False)) for layer in modules())


class _Reads:
    """Reports the first line that reads a tensor in each of _OFTEN steps, once: on a GPU the CPU waits there.

    A tensor counts if it is on a GPU, or if gradients flow through it: that would be on a GPU in other runs.
    """

    def __init__(self, writer: EventWriter) -> None:
        self.writer, self.left = writer, _PATIENCE
        self._originals = {name: getattr(torch.Tensor, name) for name in _READS}
        self._inherited = {name for name in _READS if name not in vars(torch.Tensor)}
        self._in_a_row: dict[tuple[str, str, int], int] = {}
        self._now: dict[tuple[str, str, int], bool] = {}  # lines that have read since the last step: whether on a GPU
        self._main = threading.main_thread()
        for name, original in self._originals.items():
            setattr(torch.Tensor, name, self._reader(name, original))

    def _reader(self, name: str, original: Any) -> Callable[..., Any]:
        @functools.wraps(original)
        def read(tensor: Any, *args: Any, **options: Any) -> Any:
            if type(tensor) in _PLAIN and (tensor.is_cuda or tensor.requires_grad):
                frame = sys._getframe(1)  # noqa: SLF001  # what inspect.currentframe() returns
                if is_own(frame.f_code.co_filename) and threading.current_thread() is self._main:
                    self._now[name, frame.f_code.co_filename, frame.f_lineno] = tensor.is_cuda
            return original(tensor, *args, **options)

        return read

    def step(self) -> None:
        """Note that an optimizer has made a step."""
        if not self.left:
            return
        self.left -= 1
        self._in_a_row = {place: self._in_a_row.get(place, 0) + 1 for place in self._now}
        often = [place for place, times in self._in_a_row.items() if times == _OFTEN]
        for name, file, line in often[:1]:
            now, on_gpu = self.writer.now(), self._now[name, file, line]
            self.writer.send(TensorRead(now, self.writer.rank, line, file, _READS[name], on_gpu))
            self.left = 0
        self._now.clear()
        if not self.left:
            self._restore()

    def _restore(self) -> None:
        for name, original in self._originals.items():
            if name in self._inherited:
                delattr(torch.Tensor, name)
            else:
                setattr(torch.Tensor, name, original)
