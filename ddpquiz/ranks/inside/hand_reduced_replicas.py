"""Replicas whose gradients DDP does not bring together: samples of their weights, which must be equal on all ranks.

The recorder notes the gradients that it sees in a reduction. An optimizer whose gradients were all reduced over all
ranks updates replicas. An optimizer may also update parameters whose gradients nobody reduced, or only a part of the
ranks: whether these are to be equal, nobody knows but the author. The weights are compared as they were when these
gradients were computed, so that a rank may send them to the others after its step. Nothing is computed with torch, and
no tensor of a GPU is read.
"""

import ctypes
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist

from ddpquiz.events.event import PartSample, ReplicaSample

_SAMPLED = 1 << 16  # bytes of each parameter in a sample
_MOST_SAMPLED = 1 << 22  # bytes of all of them
_MOST = 10_000  # gradients that are remembered between two steps
_OPS = ("all_reduce", "all_reduce_coalesced", "reduce")
_SHARDING = ("all_gather_into_tensor", "reduce_scatter_tensor")  # what fully_shard calls
_NUMBER = 8  # bytes of a loss or a count
_PLAIN = (torch.nn.Parameter, torch.Tensor)


class _Place(NamedTuple):
    """A reduction that a tensor was in; `place` tensors were reduced before it since the last step."""

    op: str
    file: str
    line: int
    place: int
    members: tuple[int, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class DdpModels:
    """What is known of DDP: the ids of all parameters that it holds, and the groups of the models of an optimizer."""

    known: Callable[[], set[int]]
    groups: set[tuple[int, ...]]


_NOWHERE = _Place("", "", 0, 0, (), 0)
_reduced: dict[int, _Place] = {}  # by where a gradient lies in memory
_count = 0  # of the tensors that were reduced since the last step
_has_stepped = False  # an optimizer
_has_exchanged = False  # tensors went to other ranks since the first step, and they were no gradients

_Counts = WeakKeyDictionary[Any, tuple[int, int]]  # number of an optimizer, and its steps
_replica_steps: _Counts = WeakKeyDictionary()  # after which all gradients were reduced over all ranks
_all_steps: _Counts = WeakKeyDictionary()


def note(op: str, members: Sequence[int], tensors: list[torch.Tensor], file: str, line: int) -> None:
    """Note a call that may reduce gradients."""
    global _count, _has_exchanged  # noqa: PLW0603  # there is one recorder in a process
    if op not in _OPS or len(members) < 2 or len(_reduced) > _MOST:
        if _has_stepped and not _has_exchanged and not op.startswith(_SHARDING):
            _has_exchanged = any(each.is_floating_point() and each.nbytes > _NUMBER for each in tensors)
        return
    for each in tensors:
        if each.is_cpu and each.is_floating_point():
            _reduced[each.data_ptr()] = _Place(op, file, line, _count, tuple(members), each.nbytes)
        _count += 1


def before_step(
    optimizer: Any, models: DdpModels, mark: Callable[..., None], send: Callable[[ReplicaSample], None], now: float
) -> None:
    """Look at an optimizer that is about to make a step."""
    global _count, _has_stepped, _has_exchanged  # noqa: PLW0603  # the same
    rank, world = dist.get_rank(), dist.get_world_size()
    alone, is_first, _has_stepped = world > 1 and (rank,) in models.groups, not _has_stepped, True
    counted = _count_step(_all_steps, optimizer)
    if (models.groups or not _reduced) and not alone and not _is_due(counted[1]):
        return
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    places = [place for place, each in enumerate(parameters) if each.grad is not None and not _is_shard(each)]
    updated = [parameters[place] for place in places]
    found = [_reduced.pop(each.grad.data_ptr(), None) if _is_plain(each.grad) else None for each in updated]
    _has_exchanged |= not is_first and any(each.bytes > _NUMBER for each in _reduced.values())
    if alone or not models.groups:  # else the gradients of another optimizer may be among them
        _reduced.clear()
        _count = 0
    if not alone and (models.groups or not found or any(each is None or len(each.members) < world for each in found)):
        if _is_due(counted[1]):
            _sample_part(models, mark, counted, [*zip(updated, found, strict=True)])
        return
    number, steps = _count_step(_replica_steps, optimizer)
    if _is_due(steps) and (checksum := _checksum(updated)):
        first = next((each for each in found if each), _NOWHERE)
        calls, which = _sum_of([each.place for each in found if each]), _sum_of(places)
        op = "" if alone else first.op
        send(ReplicaSample(now, rank, first.line, number, steps, checksum, first.file, op, calls, which))


def _sample_part(
    models: DdpModels, mark: Callable[..., None], counted: tuple[int, int], found: list[tuple[Any, _Place | None]]
) -> None:
    """Report parameters whose gradients were brought together by some ranks only, or by none."""
    world, known = dist.get_world_size(), models.known()
    groups = {group for group in models.groups if len(group) < world}
    if groups:
        part = [(each, _NOWHERE) for each, _ in found if id(each) in known]
    else:
        places = [(each, place or _NOWHERE) for each, place in found if id(each) not in known]
        part = [(each, place) for each, place in places if len(place.members) < world]
        groups = {place.members for _, place in part}
    if part and len(groups) == 1 and world > 1:
        first, checksum = part[0][1], _checksum([each for each, _ in part])
        if checksum:
            where = first.op, first.file, first.line
            mark(PartSample, *counted, checksum, len(part), *groups, _has_exchanged, *where)


def _count_step(counts: _Counts, optimizer: Any) -> tuple[int, int]:
    number, steps = counts.get(optimizer, (len(counts) + 1, 0))
    counts[optimizer] = number, steps + 1
    return counts[optimizer]


def _is_due(steps: int) -> bool:
    """Steps 1, 2, 4, 8, ..."""
    return steps & (steps - 1) == 0


def _is_shard(parameter: Any) -> bool:
    return getattr(parameter, "device_mesh", None) is not None


def _is_plain(tensor: Any) -> bool:
    return type(tensor) in _PLAIN and tensor.is_cpu and not tensor.is_sparse


def _sum_of(numbers: Sequence[int]) -> str:
    return f"{zlib.crc32(repr(numbers).encode()):08x}"


def _checksum(parameters: Sequence[Any]) -> str:
    """Of some bytes of each parameter; nothing if one does not lie in memory as a whole."""
    checksum, left = 0, _MOST_SAMPLED
    for each in parameters:
        if not each.is_cpu or not each.is_contiguous() or type(each) not in _PLAIN:
            return ""
        size = min(each.nbytes, _SAMPLED, left)
        checksum = zlib.crc32(ctypes.string_at(each.data_ptr(), size), checksum)
        left -= size
    return f"{checksum:08x}"
