"""Replicas whose gradients a script brings together itself: samples of their weights, which must be equal on all ranks.

The recorder notes the gradients that it sees in a reduction of all ranks; an optimizer whose gradients were all among
them updates replicas. The weights are compared as they were when these gradients were computed, so that a rank may
send them to the others after its step. Nothing is computed with torch, and no tensor of a GPU is read.
"""

import ctypes
import zlib
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist

from ddpquiz.events.event import ReplicaSample

_SAMPLED = 1 << 16  # bytes of each parameter in a sample
_MOST_SAMPLED = 1 << 22  # bytes of all of them
_MOST = 10_000  # gradients that are remembered between two steps
_OPS = ("all_reduce", "all_reduce_coalesced", "reduce")

_Place = tuple[str, str, int, int]  # operator, file, line, and how many tensors were reduced before since the last step
_reduced: dict[int, _Place] = {}  # by where a gradient lies in memory: the reduction of all ranks that it was in
_count = 0  # of the tensors that were reduced since the last step
_steps: WeakKeyDictionary[Any, tuple[int, int]] = WeakKeyDictionary()  # number of an optimizer, and its steps


def note(op: str, members: Sequence[int], tensors: list[torch.Tensor], file: str, line: int) -> None:
    """Note a call that may reduce gradients."""
    global _count  # noqa: PLW0603  # there is one recorder in a process
    if op not in _OPS or len(members) < 2 or len(_reduced) > _MOST or len(members) != dist.get_world_size():
        return
    for each in tensors:
        if each.is_cpu and each.is_floating_point():
            _reduced[each.data_ptr()] = op, file, line, _count
        _count += 1


def before_step(optimizer: Any, mark: Callable[[ReplicaSample], None], now: float, rank: int, *, alone: bool) -> None:
    """Look at an optimizer that is about to make a step; `alone` if it updates a DDP model in a group of one rank."""
    global _count  # noqa: PLW0603  # the same
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    places = [place for place, each in enumerate(parameters) if each.grad is not None]
    updated = [parameters[place] for place in places]
    found = [_reduced.get(each.grad.data_ptr()) for each in updated if each.grad.is_cpu and not each.grad.is_sparse]
    _reduced.clear()
    _count = 0
    if not alone and (not found or None in found or len(found) < len(updated)):
        return
    number, steps = _steps.get(optimizer, (len(_steps) + 1, 0))
    steps += 1
    _steps[optimizer] = number, steps
    if steps & (steps - 1) == 0 and (checksum := _checksum(updated)):  # steps 1, 2, 4, 8, ...
        op, file, line, _ = next((each for each in found if each), ("", "", 0, 0))
        calls, which = _sum_of([each[3] for each in found if each]), _sum_of(places)
        mark(ReplicaSample(now, rank, line, number, steps, checksum, file, "" if alone else op, calls, which))


def _sum_of(numbers: Sequence[int]) -> str:
    return f"{zlib.crc32(repr(numbers).encode()):08x}"


def _checksum(parameters: Sequence[Any]) -> str:
    """Of some bytes of each parameter; nothing if one does not lie in memory as a whole."""
    checksum, left = 0, _MOST_SAMPLED
    for each in parameters:
        if not each.is_cpu or not each.is_contiguous() or type(each) not in (torch.nn.Parameter, torch.Tensor):
            return ""
        size = min(each.nbytes, _SAMPLED, left)
        checksum = zlib.crc32(ctypes.string_at(each.data_ptr(), size), checksum)
        left -= size
    return f"{checksum:08x}"
