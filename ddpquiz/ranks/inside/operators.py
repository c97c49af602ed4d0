"""What a call of one of the dispatcher's c10d operators means: the operation as scripts call it, and its tensors.

The dispatcher passes arguments without names; the operator's schema says which is which.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist

from ddpquiz.ranks.inside import torch_private
from ddpquiz.ranks.inside.torch_private import TorchPrivate

_ScriptObject = torch.ScriptObject
FEW = 16  # values are reported of tensors with up to this many elements
C10D = dist.distributed_c10d.__file__
FUNCTIONAL = "_functional_collectives.py"
CALLS_AGAIN = ("torch/_ops.py", "torch/_compile.py", "torch/_dynamo/eval_frame.py")  # around a dispatch mode's call
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


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of the dispatcher: its name in scripts, and the positions of its arguments."""

    op: str
    private: TorchPrivate
    redispatch: Callable[..., Any]
    group: int
    inputs: int
    outputs: int | None
    peer: int | None
    reduce: int | None
    asynchronous: int | None
    tag: int | None

    @classmethod
    def of(cls, overload: Any, name: str, private: TorchPrivate) -> Operator:
        """Read the schema of an operator that has a process group."""
        names = torch_private.argument_names(overload)

        def at(*wanted: str) -> int | None:
            return next((names.index(each) for each in wanted if each in names), None)

        return cls(
            op=NAMES.get(name, name.rstrip("_")), private=private, redispatch=torch_private.redispatch(overload),
            group=names.index("process_group"), inputs=at(*INPUTS) or 0,
            outputs=None if name == "send" else at(*OUTPUTS), peer=at(*PEERS), reduce=at("reduce_op"),
            asynchronous=at("async_op"), tag=at("tag"),
        )  # fmt: skip

    def reduce_op(self, args: tuple[Any, ...], caller: FrameType | None) -> str:
        """Return the name of the reduce op; to read it from the calling frame costs a tenth of asking torch."""
        if self.reduce is None:
            return ""
        kind = self.private.reduce_op_type
        if caller is not None and caller.f_code is self.private.backward_code and self.op == "all_reduce":
            return "sum"  # DDP's reducer has divided already
        if caller is not None and caller.f_code.co_filename == C10D:
            op = caller.f_locals.get("op")
            if isinstance(op, kind):
                return name_of_reduce(op)
        try:
            return name_of_reduce(kind(args[self.reduce].op()))
        except (AttributeError, RuntimeError):  # before torch 2.10 it has no `op`
            return _functional_reduce_op(caller)

    def is_asynchronous(self, args: tuple[Any, ...], caller: FrameType | None) -> bool:
        """Return whether the script goes on while it runs; send and recv are torch's isend and irecv, and a wait."""
        if self.asynchronous is not None:
            return len(args) <= self.asynchronous or bool(args[self.asynchronous])
        if self.op not in ("send", "recv"):
            return False
        while caller is not None and caller.f_code.co_filename == C10D:
            if caller.f_code.co_name == self.op:
                return False
            caller = caller.f_back
        return True


def caller_of(frame: FrameType | None) -> FrameType | None:
    """Return the frame that called an operator, outside of the script's dispatch modes, which call it once more."""
    while frame is not None and (
        frame.f_code.co_name == "__torch_dispatch__" or frame.f_code.co_filename.endswith(CALLS_AGAIN)
    ):
        frame = frame.f_back
    return frame


def _functional_reduce_op(caller: FrameType | None) -> str:
    """Return the reduce op that a functional collective was called with, or nothing."""
    while caller is not None:
        if caller.f_code.co_filename.endswith(FUNCTIONAL) and isinstance(op := caller.f_locals.get("reduceOp"), str):
            return op.lower()
        caller = caller.f_back
    return ""


@cache
def name_of(dtype: torch.dtype) -> str:
    """Return the name of a dtype without the `torch.`."""
    return str(dtype).removeprefix("torch.")


@cache
def name_of_reduce(op: Any) -> str:
    """Return the name of a reduce op as scripts write it, in lower case."""
    return str(op.name).lower()


def work_of(out: Any, private: TorchPrivate) -> Any:
    """Return the Work that an operator returned, or None."""
    last = out[-1] if type(out) is tuple else out
    return private.unbox_work(last) if isinstance(last, _ScriptObject) else None


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Return the tensors of an argument, however deep its lists."""
    if isinstance(value, torch.Tensor):
        return [value]
    if type(value) is list and len(value) == 1 and isinstance(value[0], torch.Tensor):
        return value  # nearly always
    return [tensor for each in value for tensor in tensors_in(each)] if isinstance(value, tuple | list) else []


def are_few(tensors: list[torch.Tensor]) -> bool:
    """Return whether the values of all these tensors are reported."""
    left = FEW
    for tensor in tensors:
        left -= tensor.numel()
        if left < 0 or not (tensor.is_cpu or tensor.is_cuda) or tensor.layout is not torch.strided:
            return False
    return True


def values_of(tensors: list[torch.Tensor]) -> tuple[str, ...]:
    """Return the values of each tensor as text, if there are few."""
    if not are_few(tensors) or (tensors and tensors[0].is_cuda):  # nothing waits for a GPU
        return ()
    return tuple([str(tensor.tolist()) for tensor in tensors])
