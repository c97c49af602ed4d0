"""Records the collectives that Python calls most, without the dispatcher: that costs a fraction of a kernel in Python.

`dist.all_reduce` calls `ProcessGroup.allreduce`, which does nothing on tensors of CPUs and CUDA GPUs but pass the call
through the dispatcher to the same method of the group's backend. A kernel in Python makes the dispatcher convert all
arguments to Python objects and back. So the methods here record the call and go to the backend themselves. Whatever
could notice a difference (other devices, subclasses of tensors, a profiler, a dispatch mode, autograd) takes the usual
way.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ddpquiz.events.operation import Operation
from ddpquiz.ranks.inside.event_writer import PreparedCall
from ddpquiz.ranks.inside.operations import OpenOperation, mark_for, name_of, name_of_reduce
from ddpquiz.ranks.inside.recorder import Recorder
from ddpquiz.ranks.inside.source_location import locate
from ddpquiz.ranks.inside.torch_private import DirectPrivate, find_direct

_MOST_CALLS = 10_000  # different calls of one rank that are cached
_PLAIN = (torch.Tensor, torch.nn.Parameter)


@dataclass(frozen=True, slots=True)
class _Method:
    """A method of a process group: the operation's name in scripts, and where its arguments are.

    `options` is the class of the last argument, `inputs` the position of the list with the tensor that a rank brings.
    """

    name: str
    op: str
    options: type
    inputs: int = 0
    reduces: bool = False
    rooted: bool = False


_METHODS = (
    _Method("allreduce", "all_reduce", c10d.AllreduceOptions, reduces=True),
    _Method("broadcast", "broadcast", c10d.BroadcastOptions, rooted=True),
    _Method("reduce", "reduce", c10d.ReduceOptions, reduces=True, rooted=True),
    _Method("allgather", "all_gather", c10d.AllgatherOptions, inputs=1),
)


class _DirectCalls:
    """Records through the methods of ProcessGroup what a Recorder would record in its kernels."""

    def __init__(self, recorder: Recorder, private: DirectPrivate) -> None:
        self.recorder, self.private = recorder, private
        self._known: dict[tuple[Any, ...], PreparedCall] = {}

    def install(self) -> None:
        """Replace the methods."""
        for method in _METHODS:
            setattr(dist.ProcessGroup, method.name, self._replacement(method))

    def _replacement(self, method: _Method) -> Callable[..., Any]:
        original, direct = getattr(dist.ProcessGroup, method.name), getattr(self.private.backend, method.name)
        operations, get_backend, count = self.recorder.operations, self.private.get_backend, method.inputs + 2

        @wraps(original)
        def call(group: Any, *args: Any, **options: Any) -> Any:
            opened = backend = None
            caller = sys._getframe().f_back  # noqa: SLF001  # as inspect does
            try:
                if len(args) == count and not options and self._is_plain(group, args, method):
                    tensors = args[method.inputs]
                    backend = get_backend(group, tensors[0].device)
                    opened = self._issue(method, group, tensors, args[-1], caller)
                    opened.begun = mark_for(tensors)
            except Exception as fault:  # noqa: BLE001  # a fault of the recorder must never reach the script
                operations.report_fault(fault)
            if opened is None:
                return original(group, *args, **options)
            try:
                work = direct(backend, *args)  # releases the GIL
            except BaseException:
                operations.refused(opened.number)
                raise
            opened.work = work
            operations.add(operations.by_work, id(work), opened)
            is_own_call = opened.asynchronous and not opened.on_gpu
            is_mean = method.reduces and is_own_call and args[-1].reduceOp == dist.ReduceOp.AVG
            inputs = [] if is_mean else args[method.inputs]  # of a mean, Gloo divides at any time
            operations.results.begin(work, method.op, caller, inputs, asynchronous=is_own_call)
            if opened.on_gpu:
                operations.watch_gpu(opened)
            elif opened.asynchronous:
                operations.send_end_when_done(opened)
            return work

        return call

    def _is_plain(self, group: Any, args: tuple[Any, ...], method: _Method) -> bool:
        """Whether nothing but the backend would see this call."""
        tensors, private = args[method.inputs], self.private
        if type(args[-1]) is not method.options or type(tensors) is not list or len(tensors) != 1:
            return False
        if type(group) is not dist.ProcessGroup or not _is_dense(tensors[0]):
            return False
        if method.inputs:
            outputs, device = args[0][0], tensors[0].device
            if not all(_is_dense(each) and each.device == device for each in outputs):
                return False
        return not (
            private.dispatch_modes()
            or private.is_profiled()
            or private.in_graph()
            or private.interpreter() is not None
            or self.recorder.private.graph_task_id() != -1
        )

    def _issue(
        self, method: _Method, group: Any, tensors: list[torch.Tensor], options: Any, caller: FrameType | None
    ) -> OpenOperation:
        """Report a call."""
        recorder, writer, [tensor], name = self.recorder, self.recorder.writer, tensors, group.group_name
        reduce = options.reduceOp.op.value if method.reduces else None  # a number is hashed and compared faster
        root = options.rootRank if method.rooted else None
        asynchronous = options.asyncOp
        key = method.op, name, tensor.shape, tensor.dtype, locate(caller), asynchronous, reduce, root
        call = self._known.get(key)
        if call is None or name not in recorder.members:  # the group may be a new one of the same name
            call = self._describe(key, tensor)
        operation = call.operation
        recorder.look_at(operation, tensors, caller)
        number, now = recorder.number_call(method.op, operation.file, operation.line, in_backward=False)
        writer.write(writer.issued(now, number, (), call))
        return OpenOperation(number, now, asynchronous, None, name)

    def _describe(self, key: tuple[Any, ...], tensor: torch.Tensor) -> PreparedCall:
        op, group, shape, dtype, (file, line), asynchronous, reduce, root = key
        if len(self._known) >= _MOST_CALLS or group not in self.recorder.members:
            self._known.clear()
        members = self.recorder.find_members(group)
        call = self._known[key] = self.recorder.writer.prepare(Operation(
            op, members, members[root] if root is not None and 0 <= root < len(members) else root, (shape,),
            name_of(dtype), tensor.numel() * tensor.element_size(), file, line, group,
            "" if reduce is None else name_of_reduce(self.recorder.private.reduce_op_type(reduce)), asynchronous,
        ))  # fmt: skip
        return call


def _is_dense(tensor: Any) -> bool:
    is_plain = type(tensor) in _PLAIN and (tensor.is_cpu or tensor.is_cuda) and not tensor.requires_grad
    return is_plain and tensor.layout is torch.strided


def install(recorder: Recorder) -> None:
    """Record the most frequent collectives of Python directly, if this torch allows it."""
    if private := find_direct():
        _DirectCalls(recorder, private).install()
