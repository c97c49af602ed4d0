"""What a call of one of the dispatcher's operators says: the operation, as scripts call it, and what it works on.

The dispatcher hands over arguments alone; where in them stands what, the operator's schema tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.autograd import graph

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

FEW = 16  # the values of tensors with up to this many elements are kept
C10D = dist.distributed_c10d.__file__
ENGINE = graph._engine_run_backward.__code__  # the frame in which autograd works
NAMES = {
    "allreduce_": "all_reduce", "allgather_": "all_gather", "alltoall_": "all_to_all", "recv_any_source_": "recv",
    "alltoall_base_": "all_to_all_single", "_allgather_base_": "all_gather_into_tensor",
    "_reduce_scatter_base_": "reduce_scatter_tensor", "allreduce_coalesced_": "all_reduce_coalesced",
    "allgather_coalesced_": "all_gather_coalesced",
    "allgather_into_tensor_coalesced_": "all_gather_into_tensor_coalesced",
}  # fmt: skip
INPUTS = ("tensors", "input_tensors", "input_tensor", "input_list", "inputs", "input", "tensor")
OUTPUTS = ("output_tensors", "output_tensor", "output_lists", "outputs", "output", "tensors")
PEERS = ("root_rank", "dst", "src")
_unboxed_work = dist.Work.unbox


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of the dispatcher: what scripts call it, and where in its arguments stands what."""

    op: str
    redispatch: Callable[..., Any]
    group: int
    brings: int
    leaves: int | None
    peer: int | None
    reduce: int | None
    asynchronous: int | None

    @classmethod
    def of(cls, overload: Any, name: str) -> Operator:
        """Read the schema of an operator."""
        names = [argument.name for argument in overload._schema.arguments]

        def at(*wanted: str) -> int | None:
            return next((names.index(each) for each in wanted if each in names), None)

        return cls(
            NAMES.get(name, name.rstrip("_")), overload._handle.redispatch_boxed, names.index("process_group"),
            at(*INPUTS) or 0, None if name == "send" else at(*OUTPUTS), at(*PEERS), at("reduce_op"), at("async_op"),
        )  # fmt: skip

    def reduce_op(self, args: tuple[Any, ...], caller: FrameType | None) -> str:
        """Name the reduce op; to ask the operator's own argument costs ten times as much as to look at who calls."""
        if self.reduce is None:
            return ""
        if caller is not None and caller.f_code is ENGINE and self.op == "all_reduce":
            return "sum"  # DDP's reducer has divided already
        if caller is not None and caller.f_code.co_filename == C10D:
            op = caller.f_locals.get("op")
            if isinstance(op, dist.ReduceOp.RedOpType):
                return _reduce_name(op)
        return _reduce_name(dist.ReduceOp.RedOpType(args[self.reduce].op()))

    def is_asynchronous(self, args: tuple[Any, ...], caller: FrameType | None) -> bool:
        """Whether the script goes on while it runs; send and recv are torch's isend and irecv, and a wait."""
        if self.asynchronous is not None:
            return len(args) <= self.asynchronous or bool(args[self.asynchronous])
        if self.op not in ("send", "recv"):
            return False
        while caller is not None and caller.f_code.co_filename == C10D:
            if caller.f_code.co_name == self.op:
                return False
            caller = caller.f_back
        return True


@cache
def members_of(group_name: str) -> tuple[int, ...]:
    """Return the global ranks of a group."""
    group = dist.distributed_c10d._resolve_process_group(group_name)
    return tuple(dist.get_process_group_ranks(group))


def forget_groups() -> None:
    """Forget who belongs to which group: new groups may take the names of old ones."""
    members_of.cache_clear()


@cache
def name_of(dtype: torch.dtype) -> str:
    """Return what a dtype is called, without the `torch.`."""
    return str(dtype).removeprefix("torch.")


@cache
def _reduce_name(op: Any) -> str:
    return str(op.name).lower()


def work_of(out: Any) -> Any:
    """Return the Work that an operator gave back, or None."""
    for each in out if isinstance(out, tuple | list) else (out,):
        if isinstance(each, torch.ScriptObject):
            return _unboxed_work(each)
    return None


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Return the tensors of an argument, however deep its lists."""
    if isinstance(value, torch.Tensor):
        return [value]
    if type(value) is list and len(value) == 1 and isinstance(value[0], torch.Tensor):
        return value  # as nearly always
    return [tensor for each in value for tensor in tensors_in(each)] if isinstance(value, tuple | list) else []


def are_few(tensors: list[torch.Tensor]) -> bool:
    """Whether the values of all of them are kept."""
    left = FEW
    for tensor in tensors:
        left -= tensor.numel()
        if left < 0 or not (tensor.is_cpu or tensor.is_cuda) or tensor.layout is not torch.strided:
            return False
    return True


def values_of(tensors: list[torch.Tensor]) -> tuple[str, ...]:
    """Return the values of each tensor as text, where they are few."""
    if not are_few(tensors) or (tensors and tensors[0].is_cuda):  # nothing waits for a GPU
        return ()
    return tuple([str(tensor.tolist()) for tensor in tensors])
