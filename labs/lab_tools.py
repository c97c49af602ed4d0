"""What the checks of the labs share: the learner's file, seeds, delays, comparisons, phases and live memory.

A check is a plain torchrun script that imports torch, the standard library and this module. It runs like this:

    torchrun --nproc-per-node 4 labs/ring_all_reduce/check.py ring_all_reduce.py --seed 7
"""

import argparse
import contextlib
import importlib.util
import random
import sys
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter


class Check:
    """One check on this rank: the learner's module, the group of all ranks, and the seeds to use.

    `needed` are the names that the learner's file must define. `options` are further arguments of the check with their
    default values: `layers=4` is read from `--layers`. Leave the check with `end`.
    """

    def __init__(self, *needed: str, **options: Any) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("file", type=Path, help="the file to check")
        parser.add_argument("--seed", type=int, action="append", help="may be repeated; 1 without it")
        for name, default in options.items():
            parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
        self.args = parser.parse_args()
        dist.init_process_group("gloo")
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.random = random.Random()  # the same on every rank
        self._own_random = random.Random()
        self._cases = 0
        self.learner: Any = _load(self.args.file, needed)

    def seeds(self) -> Iterator[int]:
        """Yield each seed once, after all ranks have finished with the one before and all dice are seeded with it."""
        for seed in self.args.seed or [1]:
            dist.barrier()
            print(f"seed: {seed}", flush=True)
            self.random.seed(seed)
            self._own_random.seed(1000 * seed + self.rank)
            torch.manual_seed(seed)
            yield seed
            self._cases += 1

    def tensor(self, *shape: int, of_rank: int | None = None) -> torch.Tensor:
        """Return the input of a rank, by default of this one: whole numbers, whose sums are exact in any order.

        The next tensors differ from these. Every rank must ask for the same tensors in the same order, since all of
        them draw the inputs of all ranks: `tensors` returns these.
        """
        return self.tensors(*shape)[self.rank if of_rank is None else of_rank]

    def tensors(self, *shape: int) -> list[torch.Tensor]:
        """Return an input for each rank; every rank gets the same list."""
        return [torch.randint(-50, 50, shape).float() for _ in range(self.world_size)]

    def delay(self, longest: float = 0.01) -> None:
        """Sleep for a random time on this rank, so that ranks arrive in another order each time."""
        time.sleep(self._own_random.random() * longest)

    @contextlib.contextmanager
    def phase(self, name: str, **values: float) -> Iterator[dict[str, float]]:
        """Mark what the budgets of phase `name` measure: the learner's code runs in here, and nothing else.

        Budgets may use `values`, and what the block adds to the dictionary that it gets, such as `peak`.
        """
        _print_phase(name, values)
        measured: dict[str, float] = {}
        yield measured
        _print_phase("end", measured)

    def end(self) -> None:
        """Say that this rank has finished its check."""
        dist.barrier()
        print(f"checked: {self._cases}", flush=True)
        dist.destroy_process_group()


def same(found: Any, expected: Any, *, tolerance: float = 0.0) -> bool:
    """Return whether a tensor or number is as expected; print the first difference if it is not.

    `tolerance` is relative to the largest number that is expected. Use it in a claim:
    `assert same(mine, total), "every rank holds the sum"`.
    """
    difference = _difference(found, expected, tolerance)
    if difference:
        print(f"differs: {difference}", flush=True)
    return not difference


def differs(text: str) -> None:
    """Print what is wrong, in words: `3 all_reduce calls, expected 1`. The verdict shows it beside the claim."""
    print(f"differs: {text}", flush=True)


class LiveMemory(TorchDispatchMode):
    """Counts the bytes of all storages that are alive of those made inside the block, and of those passed to `watch`.

    `now` is the sum and `peak` its highest value. Views share a storage, which counts once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._sizes: dict[int, int] = {}

    def watch(self, *tensors: torch.Tensor) -> None:
        """Count tensors that were made before."""
        for tensor in tensors:
            self._add(tensor)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch imports its compiler, which takes seconds, before the first operation

    def wait_below(self, limit: float, seconds: float = 2.0) -> int:
        """Return `now` as soon as it is at most `limit`: Gloo's threads free what they sent a moment after the call."""
        end = time.monotonic() + seconds
        while self.now > limit and time.monotonic() < end:
            time.sleep(0.001)
        return self.now

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {_storage_key(each) for each in tree_iter((args, kwargs)) if isinstance(each, torch.Tensor)}
        out = func(*args, **(kwargs or {}))
        for each in tree_iter(out):
            if isinstance(each, torch.Tensor) and _storage_key(each) not in given:  # else it writes to what was there
                self._add(each)
        return out

    def _add(self, tensor: torch.Tensor) -> None:
        storage, key = tensor.untyped_storage(), _storage_key(tensor)
        if key in self._sizes:
            return
        self._sizes[key] = storage.nbytes()
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._remove, key)

    def _remove(self, key: int) -> None:
        self.now -= self._sizes.pop(key, 0)


def _storage_key(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _load(file: Path, needed: tuple[str, ...]) -> ModuleType:
    """Import the learner's file; exit with a sentence if it lacks a name."""
    if not file.is_file():
        sys.exit(f"There is no file {file}.")
    spec = importlib.util.spec_from_file_location(file.stem, file.absolute())
    if spec is None or spec.loader is None:
        sys.exit(f"{file} is not a Python file.")
    module = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in needed:
        if not callable(getattr(module, name, None)):
            sys.exit(f"{file.name} does not define `{name}`, which the check calls.")
    return module


def _print_phase(name: str, values: dict[str, float]) -> None:
    sys.stdout.flush()
    print(
        " ".join(
            [
                f"phase: {name}",
                *(f"{key}={float(value):g}" if value % 1 else f"{key}={int(value)}" for key, value in values.items()),
            ]
        ),
        flush=True,
    )


def _difference(found: Any, expected: Any, tolerance: float) -> str:
    if found is None:
        return f"the result is None, expected {_kind(expected)}"
    if not isinstance(expected, torch.Tensor):
        if isinstance(expected, float) or tolerance:
            fine = isinstance(found, int | float) and abs(found - expected) <= tolerance * abs(expected)
        else:
            fine = found == expected
        return "" if fine else f"{_short(found)}, expected {_short(expected)}"
    if not isinstance(found, torch.Tensor):
        return f"the result is {_kind(found)}, expected {_kind(expected)}"
    if found.shape != expected.shape:
        return f"the shape is {tuple(found.shape)}, expected {tuple(expected.shape)}"
    if found.dtype != expected.dtype:
        return f"the dtype is {found.dtype}, expected {expected.dtype}"
    ours, theirs = found.detach().double().flatten(), expected.detach().double().flatten()
    limit = tolerance * max(theirs.abs().max().item(), 1e-30) if theirs.numel() else 0.0
    wrong = ((ours - theirs).abs() > limit) | (ours.isnan() != theirs.isnan())
    count = int(wrong.sum())
    if not count:
        return ""
    at = int(wrong.nonzero()[0])
    which = f"element {at} of {wrong.numel()}" if wrong.numel() > 1 else "the number"
    more = f" ({count} elements differ)" if count > 1 else ""
    return f"{which} is {ours[at].item():.7g}, expected {theirs[at].item():.7g}{more}"


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return f"a {type(value).__name__}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
