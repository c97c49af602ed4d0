"""Operations as the recorder sees them: what a call means, when it ends, and what it leaves.

The dispatcher calls c10d operators and passes arguments without names; an operator's schema says which is which. An
operation is open until the script has waited for it, or until a GPU is done with it.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cache, partial
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist

from ddpquiz.ranks.inside import torch_private
from ddpquiz.ranks.inside.event_writer import EventWriter, Line
from ddpquiz.ranks.inside.never_awaited import AsyncResults, get_future, is_completed
from ddpquiz.ranks.inside.torch_private import TorchPrivate

_ScriptObject = torch.ScriptObject
_FEW = 16  # values are reported of tensors with up to this many elements
C10D = dist.distributed_c10d.__file__
_FUNCTIONAL = "_functional_collectives.py"
_CALLS_AGAIN = ("torch/_ops.py", "torch/_compile.py", "torch/_dynamo/eval_frame.py")  # around a dispatch mode's call
_NAMES = {
    "allreduce_": "all_reduce", "allgather_": "all_gather", "alltoall_": "all_to_all", "recv_any_source_": "recv",
    "alltoall_base_": "all_to_all_single", "_allgather_base_": "all_gather_into_tensor",
    "_reduce_scatter_base_": "reduce_scatter_tensor", "allreduce_coalesced_": "all_reduce_coalesced",
    "allgather_coalesced_": "all_gather_coalesced",
    "allgather_into_tensor_coalesced_": "all_gather_into_tensor_coalesced",
}  # fmt: skip
_INPUTS = ("tensors", "input_tensors", "input_tensor", "input_list", "inputs", "input", "tensor")
_OUTPUTS = ("output_tensors", "output_tensor", "output_lists", "outputs", "output", "tensors")
_PEERS = ("root_rank", "dst", "src")


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
    splits: tuple[int, int] | None  # of what is sent, and of what is received

    @classmethod
    def of(cls, overload: Any, name: str, private: TorchPrivate) -> Operator:
        """Read the schema of an operator that has a process group."""
        names = torch_private.argument_names(overload)

        def at(*wanted: str) -> int | None:
            return next((names.index(each) for each in wanted if each in names), None)

        return cls(
            op=_NAMES.get(name, name.rstrip("_")), private=private, redispatch=torch_private.redispatch(overload),
            group=names.index("process_group"), inputs=at(*_INPUTS) or 0,
            outputs=None if name == "send" else at(*_OUTPUTS), peer=at(*_PEERS), reduce=at("reduce_op"),
            asynchronous=at("async_op", "asyncOp"), tag=at("tag"),
            splits=None if (sent := at("input_split_sizes")) is None else (sent, at("output_split_sizes") or 0),
        )  # fmt: skip

    def reduce_op(self, args: tuple[Any, ...], caller: FrameType | None) -> str:
        """The name of the reduce op; to read it from the calling frame costs a tenth of asking torch."""
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

    def parts(self, args: tuple[Any, ...], members: int) -> tuple[tuple[int, ...], ...]:
        """How many elements an all_to_all sends to each of the members, and expects from each; () for all others."""
        if not self.op.startswith("all_to_all") or self.outputs is None:
            return ()
        sent, received = tensors_in(args[self.inputs]), tensors_in(args[self.outputs])
        if self.splits is not None:
            return tuple(
                _sizes_of(each[0], args[at], members) for each, at in zip((sent, received), self.splits, strict=True)
            )
        return tuple([each.numel() for each in sent]), tuple([each.numel() for each in received])

    def channel(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """What tells a send or receive from those that a GPU may run beside it; nothing for a collective."""
        return (self.op, args[self.peer]) if self.op in ("send", "recv") and self.peer is not None else ()

    def is_asynchronous(self, args: tuple[Any, ...], caller: FrameType | None) -> bool:
        """Whether the script goes on while it runs; send and recv are torch's isend and irecv, and a wait."""
        if self.asynchronous is not None:
            return len(args) <= self.asynchronous or bool(args[self.asynchronous])
        if self.op not in ("send", "recv"):  # up to torch 2.7 most collectives; only Python waits for them
            if caller is None or caller.f_code.co_filename != C10D:
                return self.op != "monitored_barrier"
            given = caller.f_locals
            return bool(given.get("async_op", given.get("async_ops")))  # the latter of coalesced calls
        while caller is not None and caller.f_code.co_filename == C10D:
            if caller.f_code.co_name == self.op:
                return False
            caller = caller.f_back
        return True


def caller_of(frame: FrameType | None) -> FrameType | None:
    """The frame that called an operator, outside of the script's dispatch modes, which call it once more."""
    while frame is not None and (
        frame.f_code.co_name == "__torch_dispatch__" or frame.f_code.co_filename.endswith(_CALLS_AGAIN)
    ):
        frame = frame.f_back
    return frame


def _functional_reduce_op(caller: FrameType | None) -> str:
    """The reduce op that a functional collective was called with, or nothing."""
    while caller is not None:
        if caller.f_code.co_filename.endswith(_FUNCTIONAL) and isinstance(op := caller.f_locals.get("reduceOp"), str):
            return op.lower()
        caller = caller.f_back
    return ""


def _sizes_of(tensor: torch.Tensor, splits: list[int], members: int) -> tuple[int, ...]:
    """The elements of each part of a tensor that is split along its first dimension, evenly if no sizes are given."""
    row = math.prod(tensor.shape[1:])
    sizes = splits or [tensor.shape[0] // members] * members if tensor.dim() else [0] * members
    return tuple([row * rows for rows in sizes])


@cache
def name_of(dtype: torch.dtype) -> str:
    """The name of a dtype without the `torch.`."""
    return str(dtype).removeprefix("torch.")


@cache
def name_of_reduce(op: Any) -> str:
    """The name of a reduce op as scripts write it, in lower case."""
    return str(op.name).lower()


def work_of(out: Any, private: TorchPrivate) -> Any:
    """The Work that an operator returned, or None."""
    last = out[-1] if type(out) is tuple else out
    return private.unbox_work(last) if isinstance(last, _ScriptObject) else None


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors of an argument, however deep its lists."""
    if isinstance(value, torch.Tensor):
        return [value]
    if type(value) is list and len(value) == 1 and isinstance(value[0], torch.Tensor):
        return value  # nearly always
    return [tensor for each in value for tensor in tensors_in(each)] if isinstance(value, tuple | list) else []


def are_few(tensors: list[torch.Tensor]) -> bool:
    """Whether the values of all these tensors are reported."""
    left = _FEW
    for tensor in tensors:
        left -= tensor.numel()
        if left < 0 or not (tensor.is_cpu or tensor.is_cuda) or tensor.layout is not torch.strided:
            return False
    return True


def values_of(tensors: list[torch.Tensor]) -> tuple[str, ...]:
    """The values of each tensor as text, if there are few."""
    if not are_few(tensors) or (tensors and tensors[0].is_cuda):  # nothing waits for a GPU
        return ()
    return tuple([str(tensor.tolist()) for tensor in tensors])


_LONG = 50e-6  # seconds; shorter waits are not reported
MOST_OPEN = 1000  # operations that nobody has waited for, before the oldest is dropped
_PACE = 0.001  # seconds between two polls of a GPU
_PATIENCE = 1.0  # seconds to wait for the end of a poll, when the process ends


@dataclass(slots=True, eq=False)
class OpenOperation:
    """An operation that nobody has waited for yet; it holds its work, so that the work's `wait` finds it."""

    number: int
    since: float  # when it was called
    asynchronous: bool  # the call returns before the operation has ended
    bucket: int | None
    group: str  # its name
    work: Any = None
    begun: Any = None  # a mark on the GPU, if it runs on one
    outputs: list[torch.Tensor] = field(default_factory=list)  # if their values are reported
    awaited: bool = False  # a Waiting was sent
    storages: list[int] = field(default_factory=list)  # its keys in OpenOperations.by_storage
    senders: tuple[int, ...] = ()  # the members of the group, for a receive from any rank

    @property
    def on_gpu(self) -> bool:
        """Whether it ends when the GPU is done with it, not when the script has waited."""
        return self.begun is not None


class OpenOperations:
    """The open operations of this rank, and the events that close them.

    With `every_wait`, waits are reported that found the operation done.
    """

    def __init__(self, writer: EventWriter, private: TorchPrivate, *, every_wait: bool = False) -> None:
        self.every_wait = every_wait
        self.writer, self.private = writer, private
        self.running: set[int] = set()  # numbers of operations whose end has not been sent
        self.by_work: dict[int, OpenOperation] = {}
        self.by_storage: dict[int, OpenOperation] = {}  # of functional collectives, by where their output lies
        self.gpu = GpuPoller(writer.now, writer.write)
        self.results = AsyncResults(writer)

    def add(self, where: dict[int, OpenOperation], key: int, opened: OpenOperation) -> None:
        """Add an operation to one of our dictionaries; drop the oldest if there are too many."""
        where[key] = opened
        if len(where) > MOST_OPEN:
            del where[next(iter(where))]

    def remove(self, opened: OpenOperation) -> None:
        """Release the work and the tensors of an operation."""
        self.by_work.pop(id(opened.work), None)
        for storage in opened.storages:
            if self.by_storage.get(storage) is opened:
                del self.by_storage[storage]

    def refused(self, number: int) -> None:
        """Send the end of an operation that failed when it was called."""
        self.running.discard(number)
        self.writer.write(self.writer.ended(self.writer.now(), number, failed=True))

    def send_end_when_done(self, opened: OpenOperation) -> None:
        """Send the end of an asynchronous operation when its future is done, if its work has one."""

        def done(future: Any) -> None:  # on a thread of the backend
            try:
                if line := self._end(opened, self.writer.now(), failed=_failed(future)):
                    self.writer.write(line)
                if not opened.outputs and not self.every_wait:  # nobody reports what it left
                    self.remove(opened)
            except Exception as fault:  # noqa: BLE001  # a fault of the recorder must never reach the script
                self.report_fault(fault)

        with contextlib.suppress(RuntimeError):  # without a future, its end is sent by whoever waits for it
            get_future(opened.work).add_done_callback(done)

    def watch_gpu(self, opened: OpenOperation, *channel: Any) -> None:
        """Find out when the GPU begins with an operation, which is when it passes its mark, and when it is done.

        The GPU ends operations of a group with the same `channel` in the order in which they were called, those for
        which the script waits apart from those in the background.
        """

        def report(began: float) -> Line:
            self.remove(opened)
            if opened.number not in self.running:
                return ""
            self.running.remove(opened.number)
            return self.writer.ended(self.writer.now(), opened.number, began)

        has_ended = _mark().query if opened.work is None else partial(is_completed, opened.work)
        self.gpu.add(Queued(opened.begun.query, has_ended, report), (opened.group, opened.asynchronous, *channel))

    def _send_gpu_result(self, opened: OpenOperation) -> None:
        """Queue a copy of what an operation left, and send the values when the GPU has made it."""
        copies = [torch.empty_like(each, device="cpu", pin_memory=True) for each in opened.outputs]
        for copy, each in zip(copies, opened.outputs, strict=True):
            copy.copy_(each, non_blocking=True)
        copied = _mark().query

        def report(_: float) -> Line:
            return self.writer.result(self.writer.now(), opened.number, values_of(copies))

        self.gpu.add(Queued(copied, copied, report), "results")

    def _end(self, opened: OpenOperation, now: float, *, failed: bool = False) -> Line | None:
        """The line of an operation's end, only once: its future and its wait may both call this."""
        try:
            self.running.remove(opened.number)
        except KeyError:
            return None
        source = opened.senders[self.private.source_rank(opened.work)] if opened.senders and not failed else None
        return self.writer.ended(now, opened.number, source=source, failed=failed)

    def waits(self, opened: OpenOperation) -> float:
        """Send that the script begins to wait for an asynchronous operation; return since when."""
        now = self.writer.now()
        if not (opened.on_gpu or is_completed(opened.work)):
            opened.awaited = True
            self.writer.write(self.writer.waiting(now, opened.number))
        return now

    def waited(self, opened: OpenOperation, since: float, *, failed: bool = False) -> None:
        """Send that the script has waited for an operation since `since`, and what the operation left."""
        now = self.writer.now()
        end = None if opened.on_gpu and not failed else self._end(opened, now, failed=failed)
        lines = [] if end is None else [end]
        if opened.awaited or now - since > _LONG or (self.every_wait and opened.asynchronous):
            lines.append(self.writer.waited(now, opened.number, since))
        if opened.outputs and opened.on_gpu and not failed:
            self._send_gpu_result(opened)
        elif opened.outputs and not failed:
            lines.append(self.writer.result(now, opened.number, values_of(opened.outputs)))
        if lines:
            self.writer.write(*lines)

    def report_fault(self, fault: Exception) -> None:
        self.writer.note(f"The recorder missed an operation: {fault!r}")


def _failed(future: Any) -> bool:
    try:
        future.value()
    except RuntimeError:
        return True
    return False


@dataclass(slots=True, eq=False)
class Queued:
    """Work in the queue of a GPU; `report` gets when it was seen to begin, and returns what to write at its end."""

    has_begun: Callable[[], bool]
    has_ended: Callable[[], bool]
    report: Callable[[float], Line]
    began: float | None = None


class GpuPoller:
    """Writes what queued work reports when it has ended, from a thread of its own; `now` is its clock.

    Only the first in each stream is queried: a script may queue thousands of operations before it waits for the GPU.
    """

    def __init__(self, now: Callable[[], float], write: Callable[..., None]) -> None:
        self.now, self.write = now, write
        self._streams: dict[Hashable, deque[Queued]] = {}
        self._some = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_over = False

    def add(self, work: Queued, stream: Hashable) -> None:
        """Watch work that ends after everything that was added to the same stream before."""
        self._streams.setdefault(stream, deque()).append(work)
        self._some.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="ddpquiz GPU poller", daemon=True)
            self._thread.start()
            atexit.register(self._stop)

    def poll(self) -> None:
        """Write what has ended: all of it at once, since each write lets another thread run."""
        lines = []
        for queue in list(self._streams.values()):
            while queue and self._has_ended(queue[0]):
                work = queue.popleft()
                lines.append(work.report(work.began or 0.0))
        if lines:
            self.write(*lines)

    def _has_ended(self, work: Queued) -> bool:
        ended = work.has_ended()
        if work.began is None and (ended or work.has_begun()):
            work.began = self.now()
        return ended

    def _watch(self) -> None:
        while not self._is_over:
            self._some.wait()
            self._some.clear()
            while any(self._streams.values()) and not self._is_over:
                self.poll()
                time.sleep(_PACE)

    def _stop(self) -> None:
        """End the thread: one that is inside torch when the interpreter shuts down would abort the process."""
        self._is_over = True
        self._some.set()
        if self._thread:
            self._thread.join(_PATIENCE)
            if not self._thread.is_alive():
                self.poll()


def mark_for(tensors: Any) -> Any:
    """An event that the GPU passes when it reaches this call; None if the tensors are not on a GPU."""
    while isinstance(tensors, list | tuple) and tensors:
        tensors = tensors[0]
    on_gpu = isinstance(tensors, torch.Tensor) and tensors.is_cuda and not torch.cuda.is_current_stream_capturing()
    return _mark() if on_gpu else None


def _mark() -> Any:
    """An event that the GPU passes when everything that is queued so far is done."""
    event = torch.cuda.Event()
    event.record(_current_stream())
    return event


_streams: dict[Any, Any] = {}  # that were current; a script has few


def _current_stream() -> Any:
    """The current stream; torch.cuda.current_stream makes a new object, which costs more than to record an event."""
    identity = torch_private.current_stream()
    if identity is None or identity not in _streams:
        _streams[identity] = torch.cuda.current_stream()
    return _streams[identity]
