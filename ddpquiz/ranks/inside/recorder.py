"""Records every operation of a rank, whoever issues it: Python, DDP's buckets, or functions of C++ that wait.

Two callers issue operations where no wait of Python is seen: DDP's reducer in a backward, bucket by bucket, and
functions of C++ that return only when their operations have ended.
"""

import atexit
import ctypes
import functools
import itertools
import sys
import threading
import zlib
from collections.abc import Callable
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_post_hook

from ddpquiz.events.event import (
    CalledByThread,
    CalledInHandler,
    GatheredGradient,
    GradientChecksum,
    GroupsDestroyed,
    SearchedUnused,
)
from ddpquiz.events.operation import Operation
from ddpquiz.plural import plural
from ddpquiz.ranks.inside import hand_reduced_replicas, process_groups, source_location
from ddpquiz.ranks.inside.event_writer import EventWriter, printable
from ddpquiz.ranks.inside.kernels import Kernels, registered
from ddpquiz.ranks.inside.never_awaited import get_future
from ddpquiz.ranks.inside.operations import (
    C10D,
    OpenOperation,
    OpenOperations,
    Operator,
    are_few,
    name_of,
    tensors_in,
    values_of,
)
from ddpquiz.ranks.inside.source_location import locate
from ddpquiz.ranks.inside.torch_private import TorchPrivate
from ddpquiz.ranks.installed_torch import major_minor


class Recorder:
    """Reports the operations of this rank.

    Without `values`, no value of a tensor is read; with `every_wait`, waits are reported that found the operation done.
    """

    def __init__(
        self, writer: EventWriter, private: TorchPrivate, *, values: bool = True, every_wait: bool = False
    ) -> None:
        self.writer, self.private, self.values = writer, private, values
        self.numbers = itertools.count(1)
        self.members: dict[str, tuple[int, ...]] = {}  # name of a group -> its ranks in the whole run
        self.operations = OpenOperations(writer, private, every_wait=every_wait)
        self.native_waits = _NativeWaits(self.operations)
        self.searches = _Searches(writer)
        self.buckets = _Buckets(self.operations, self.searches)
        self.gathers = _Gathers(writer)
        self.callers = _Callers(writer)
        self._has_noted = False

    def install(self, kernels: Kernels) -> None:
        """Let the kernels report calls from now on."""
        self._watch_wait()
        self._watch_futures()
        self.operations.results.install()
        self.searches.install()
        self._watch_ends()
        self.private.wrap_blocking(self.native_waits.wrap)
        kernels.reporter = self

    def issue(self, operator: Operator, args: tuple[Any, ...], caller: FrameType | None) -> OpenOperation:
        """Report that an operation was called."""
        op = operator.op
        group = self.private.unbox_group(args[operator.group]).group_name
        members = self.members.get(group) or self.find_members(group)
        peer = None if operator.peer is None else args[operator.peer]
        if peer is not None and 0 <= peer < len(members):
            peer = members[peer]
        tensors, with_values = tensors_in(args[operator.inputs]), self.values and op != "recv"  # that brings only room
        if not tensors and operator.outputs is not None:
            tensors, with_values = tensors_in(args[operator.outputs]), False
        if op.endswith("barrier"):
            tensors = []
        elif len(tensors) == 1:
            op = op.removesuffix("_coalesced")  # functional collectives issue even a single tensor like this
        bucket = self.buckets.number(op, tensors, caller)
        if bucket == 0:
            self.buckets.report_gradients(tensors)
            self.gathers.report()
        asynchronous = not self.native_waits.inside and operator.is_asynchronous(args, caller)
        file, line = locate(caller) if bucket is None else self.buckets.locate(caller)
        tag = args[operator.tag] if operator.tag is not None and tensors and not tensors[0].is_cuda else 0
        number, now = self.number_call(op, file, line, in_backward=self.private.graph_task_id() != -1)
        operation = Operation(
            op, members, peer, tuple([tensor.shape for tensor in tensors]),
            name_of(tensors[0].dtype) if tensors else "",
            sum([tensor.numel() * tensor.element_size() for tensor in tensors]),
            file, line, group, operator.reduce_op(args, caller), asynchronous, bucket, tag,
            operator.parts(args, len(members)),
        )  # fmt: skip
        if bucket is None:
            self.look_at(operation, tensors, caller)
        self.writer.write(
            self.writer.issued(now, number, values_of(tensors) if with_values else (), self.writer.prepare(operation))
        )
        return OpenOperation(number, now, asynchronous, bucket, group)

    def number_call(self, op: str, file: str, line: int, *, in_backward: bool) -> tuple[int, float]:
        """The number of the call that is made now, and the time; a handler or a thread that makes it is reported."""
        number, now = next(self.numbers), self.writer.now()
        self.callers.look(number, op, file, line, in_backward=in_backward)
        self.operations.running.add(number)
        return number, now

    def look_at(self, operation: Operation, tensors: list[torch.Tensor], caller: FrameType | None) -> None:
        """Note what a call of the script, and not of DDP, says about gradients."""
        if operation.op.startswith("all_gather"):
            self.gathers.look(operation.op, tensors, caller)
        hand_reduced_replicas.note(operation.op, operation.members, tensors, operation.file, operation.line)

    def follow(
        self, opened: OpenOperation, operator: Operator, args: tuple[Any, ...], caller: FrameType | None
    ) -> None:
        """See to it that the end of an operation is reported."""
        has_use = self.values or opened.asynchronous
        outputs = [] if operator.outputs is None or not has_use else tensors_in(args[operator.outputs])
        if self.values and are_few(outputs):
            opened.outputs = outputs
        if operator.op == "recv" and operator.peer is None:
            opened.senders = self.members[opened.group]
        if opened.on_gpu:
            self.operations.watch_gpu(opened, *operator.channel(args))
        if opened.work is None:  # a monitored barrier has ended when the call returns
            self.operations.waited(opened, opened.since)
            return
        self.operations.add(self.operations.by_work, id(opened.work), opened)
        is_own_call = opened.asynchronous and opened.bucket is None and not opened.on_gpu
        is_watched = is_own_call and operator.reduce_op(args, caller) != "avg"  # Gloo divides at any time
        inputs = tensors_in(args[operator.inputs]) if is_watched else []
        self.operations.results.begin(opened.work, operator.op, caller, inputs, asynchronous=is_own_call)
        if opened.bucket is not None:
            self.buckets.open.append(opened)
        elif self.native_waits.inside:
            self.native_waits.add(opened)
        elif opened.asynchronous and caller is not None and caller.f_code.co_filename != C10D:
            opened.storages = [tensor.untyped_storage().data_ptr() for tensor in outputs]
            for storage in opened.storages:
                self.operations.add(self.operations.by_storage, storage, opened)
        if (opened.asynchronous or self.native_waits.inside) and not opened.on_gpu:
            self.operations.send_end_when_done(opened)

    def find_members(self, group: str) -> tuple[int, ...]:
        """The ranks of a group in the whole run."""
        members = self.members[group] = tuple(dist.get_process_group_ranks(self.private.find_group(group)))
        return members

    def _watch_ends(self) -> None:
        """Note operations that still run when their group goes, or the process."""
        original = dist.destroy_process_group

        @functools.wraps(original)
        def destroy(*args: Any, **kwargs: Any) -> None:
            self._note_in_flight("calls destroy_process_group")
            group, (file, line) = args[0] if args else kwargs.get("group"), locate()
            original(*args, **kwargs)
            if group is None or group is dist.GroupMember.WORLD or not dist.is_initialized():
                self.writer.send(GroupsDestroyed(self.writer.now(), self.writer.rank, line, file))

        dist.destroy_process_group = destroy
        atexit.register(self._note_in_flight, "ends")

    def _note_in_flight(self, ends: str) -> None:
        """Note once that operations in the background have not ended; those on a GPU end with it."""
        open_ = [each for each in self.operations.by_work.values() if each.asynchronous and not each.on_gpu]
        count = sum(each.number in self.operations.running and each.bucket is None for each in open_)
        if count and not self._has_noted:
            self._has_noted = True
            them = "it" if count == 1 else "them"
            self.writer.note(_IN_FLIGHT.format(ends=ends, what=plural(count, "operation"), them=them))

    def _watch_wait(self) -> None:
        """Report when the script waits for an operation."""
        original, operations = dist.Work.wait, self.operations

        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            operations.results.wait(work)
            opened = operations.by_work.get(id(work))
            since = 0.0
            if opened:
                since = operations.waits(opened) if opened.asynchronous else opened.since
            failed = True
            try:
                done = original(work, *args, **kwargs)
                failed = False
            finally:
                if opened and operations.by_work.pop(id(work), None):
                    try:
                        operations.waited(opened, since, failed=failed)
                    except Exception as fault:  # noqa: BLE001  # the same
                        operations.report_fault(fault)
            return done

        wait.__name__, wait.__doc__ = original.__name__, original.__doc__
        dist.Work.wait = wait

    def _watch_futures(self) -> None:
        """Report when the script waits for the future of an operation, as in `work.get_future().wait()`."""
        operations, futures = self.operations, WeakKeyDictionary[Any, OpenOperation]()
        original, future_type = get_future, self.private.future_type
        original_wait = future_type.wait

        @functools.wraps(original)
        def future_of(work: Any) -> Any:
            operations.results.use(work)
            future = original(work)
            if (opened := operations.by_work.get(id(work))) and opened.asynchronous:
                futures[future] = opened
            return future

        @functools.wraps(original_wait)
        def wait(future: Any, *args: Any, **kwargs: Any) -> Any:
            opened, failed = futures.pop(future, None), True
            since = operations.waits(opened) if opened else 0.0
            try:
                done = original_wait(future, *args, **kwargs)
                failed = False
            finally:
                if opened:
                    operations.remove(opened)
                    operations.waited(opened, since, failed=failed)
            return done

        dist.Work.get_future, future_type.wait = future_of, wait


class _OnOldGloo(Recorder):
    """On torch before 2.9, where Gloo sums in a reduce-scatter that asks for the mean."""

    _has_warned = False

    def issue(self, operator: Operator, args: tuple[Any, ...], caller: FrameType | None) -> OpenOperation:
        if operator.op.startswith("reduce_scatter") and not self._has_warned:
            is_on_gloo = all(tensor.is_cpu for tensor in tensors_in(args[operator.inputs]))
            if is_on_gloo and operator.reduce_op(args, caller) == "avg":
                self._has_warned = True
                self.writer.note(_SUMMED_MEAN.format(op=operator.op, version=torch.__version__))
        return super().issue(operator, args, caller)


_SUMMED_MEAN = (
    "The script calls {op} with ReduceOp.AVG, and Gloo of torch {version} returns the sum instead, without an error. "
    "Use torch 2.9 or newer."
)
_IN_FLIGHT = (
    "The script {ends} while {what} still ran in the background, and nobody had waited for {them}: under torchrun, "
    'torch may abort the rank there ("terminate called without an active exception"). Call wait() on the works.'
)


def install(writer: EventWriter, *, values: bool = True, every_wait: bool = False) -> Callable[[], None]:
    """Record every operation from now on, with the values of small tensors if `values` is set.

    See Recorder for `every_wait`. Return what is to be called when process
    groups are formed anew: they may reuse the names of older ones.
    """
    recorder = create(writer, values=values, every_wait=every_wait)
    return recorder.members.clear if recorder else lambda: None


def create(writer: EventWriter, *, values: bool, every_wait: bool = False) -> Recorder | None:
    """A recorder that is installed, or None if this torch does not allow that."""
    try:
        kernels = registered()
        kind = Recorder if major_minor(torch.__version__) >= (2, 9) else _OnOldGloo
        recorder = kind(writer, kernels.private, values=values, every_wait=every_wait)
        recorder.install(kernels)
        process_groups.watch_new_groups(writer)
    except (AttributeError, RuntimeError) as missing:
        writer.note(f"This torch ({torch.__version__}) does not allow collectives to be watched: {missing}")
        return None
    return recorder


class _OfThread(threading.local):
    """How deep a thread is in such functions, and what they have issued."""

    depth = 0
    opened: list[OpenOperation]


class _NativeWaits:
    """Knows when this rank is in a function that returns only when the operations that it issues have ended.

    Each of them counts as a synchronous call, which blocks the rank until its future is done.
    """

    def __init__(self, operations: OpenOperations) -> None:
        self.operations = operations
        self._local = _OfThread()  # a thread of the script may issue others meanwhile

    @property
    def inside(self) -> bool:
        """Whether this thread is in such a function."""
        return self._local.depth > 0

    def add(self, opened: OpenOperation) -> None:
        """Note an operation that the function has issued."""
        self._local.opened.append(opened)

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A function that does what the original does, and sees to its operations when it returns."""
        local = self._local

        @functools.wraps(original)
        def function(*args: Any, **kwargs: Any) -> Any:
            if not local.depth:
                local.opened = []
            local.depth += 1
            failed = True
            try:
                result = original(*args, **kwargs)
                failed = False
            finally:
                local.depth -= 1
                if not local.depth:
                    self._finish(local.opened, failed=failed)
            return result

        return function

    def _finish(self, issued: list[OpenOperation], *, failed: bool) -> None:
        try:
            for opened in issued:
                self.operations.remove(opened)
                if not failed:  # else the futures say which operations have failed
                    self.operations.waited(opened, self.operations.writer.now())
        except Exception as fault:  # noqa: BLE001  # a fault of the recorder must never reach the script
            self.operations.report_fault(fault)


_REPORTS = 8  # backwards whose gradients are compared across ranks
_SUMMED = 4096  # bytes of the first bucket that are compared


class _Buckets:
    """The buckets of the latest backward."""

    def __init__(self, operations: OpenOperations, searches: "_Searches") -> None:
        self.operations, self.private, self.searches = operations, operations.private, searches
        self.open: list[OpenOperation] = []
        self._backward = -1
        self._reports = _REPORTS
        self._counted = 0  # buckets that the reducer issued itself, without a hook
        self._done = 0.0  # when autograd was done, and the reducer began to wait for its buckets
        self._location: tuple[str, int] | None = None  # the line of the script that called backward

    def number(self, op: str, tensors: list[torch.Tensor], caller: FrameType | None) -> int | None:
        """The number of the bucket that is being reduced, or None if this is something else.

        The reducer runs inside autograd. It calls the operation itself, without a Python frame in between, or through
        a hook, whose second parameter must be named `bucket`.
        """
        backward = self.private.graph_task_id()
        if backward == -1:
            return None
        hook = None
        while caller is not None and caller.f_code is not self.private.backward_code:
            hook, caller = caller, caller.f_back
        if hook is not None:
            bucket: Any = hook.f_locals.get("bucket")
            if not isinstance(bucket, dist.GradBucket):
                return None
        elif op != "all_reduce" or not (tensors[0].is_floating_point() or tensors[0].is_complex()):
            if op == "all_reduce":  # the map of used parameters holds integers
                self.searches.count(tensors[0])
            return None
        if backward != self._backward:
            self._backward, self._counted, self.open, self._location = backward, 0, [], None
            self.private.queue_callback(self._backward_done)
        if hook is not None:
            return int(bucket.index())
        self._counted += 1
        return self._counted - 1

    def report_gradients(self, tensors: list[torch.Tensor]) -> None:
        """Report a checksum of the gradients that this rank brings, in the first backwards; nothing waits for a GPU."""
        gradients = tensors[0]
        if not self._reports or not gradients.is_cpu or not gradients.is_contiguous():
            return
        self._reports -= 1
        data = ctypes.string_at(gradients.data_ptr(), min(gradients.nbytes, _SUMMED))
        if any(data):
            writer = self.operations.writer
            writer.send(GradientChecksum(writer.now(), writer.rank, 0, f"{zlib.crc32(data):08x}"))

    def locate(self, caller: FrameType | None) -> tuple[str, int]:
        """The file and line that the program is at in this backward; a hook may have lines of its own."""
        if caller is None or caller.f_code is not self.private.backward_code:
            return source_location.locate(caller)
        if self._location is None:
            self._location = source_location.locate(caller)
        return self._location

    def _backward_done(self) -> None:
        """Note that autograd is done. The reducer waits for its buckets in a callback that is queued by now."""
        self._done = self.operations.waits(self.open[-1]) if self.open else self.operations.writer.now()
        self.private.queue_callback(self._reduced)

    def _reduced(self) -> None:
        """Send that the reducer has waited for its buckets, and what they hold."""
        try:
            for opened in self.open:
                self.operations.remove(opened)
                last = opened is self.open[-1]
                self.operations.waited(opened, self._done if last else self.operations.writer.now())
        except Exception as fault:  # noqa: BLE001  # a fault of the recorder must never reach the script
            self.operations.report_fault(fault)
        self.open = []


_MOST_HANDLED = 100  # calls in a handler that are reported


class _Callers:
    """Reports from where a call is made if that may explain why it does not fit: a handler, or another thread."""

    def __init__(self, writer: EventWriter) -> None:
        self.writer = writer
        self._main = threading.main_thread().ident
        self._threads: set[tuple[str, int]] = set()
        self._caught = 0

    def look(self, number: int, op: str, file: str, line: int, *, in_backward: bool) -> None:
        """Look at the thread and the exception of the call that is made now."""
        if (error := sys.exc_info()[1]) is not None and self._caught < _MOST_HANDLED:
            self._caught += 1
            raised_in, raised_at = _raised_at(error)
            message = printable(str(error).partition("\n")[0]) if type(error).__module__ == "builtins" else ""
            self.writer.send(CalledInHandler(
                self.writer.now(), self.writer.rank, raised_at, number, raised_in, type(error).__qualname__, message
            ))  # fmt: skip
        is_main = in_backward or threading.get_ident() == self._main
        if not is_main and (file, line) not in self._threads and len(self._threads) < _MOST_HANDLED:
            self._threads.add((file, line))
            self.writer.send(CalledByThread(self.writer.now(), self.writer.rank, line, file, op))


def _raised_at(error: BaseException) -> tuple[str, int]:
    """The innermost line of the script's own code in the traceback of an exception."""
    place, at = ("", 0), error.__traceback__
    while at is not None:
        if source_location.is_own(at.tb_frame.f_code.co_filename):
            place = at.tb_frame.f_code.co_filename, at.tb_lineno
        at = at.tb_next
    return place


class _Searches:
    """Whether DDP's search for unused parameters finds any, by the maps that its reducer sums: 0 if one is unused."""

    def __init__(self, writer: EventWriter) -> None:
        self.writer, self.passes, self.found = writer, 0, 0

    def install(self) -> None:
        """Report at the end of the process."""
        atexit.register(self._report)

    def count(self, used: torch.Tensor) -> None:
        """Read a map of this rank, if it is not on a GPU."""
        if used.is_cpu and used.is_contiguous() and used.dtype == torch.int32:
            self.passes += 1
            self.found += 0 in memoryview(ctypes.string_at(used.data_ptr(), used.nbytes)).cast("i")

    def _report(self) -> None:
        if self.passes:
            self.writer.send(SearchedUnused(self.writer.now(), self.writer.rank, 0, self.passes, self.found))


class _Gathers:
    """Reports lines that gather tensors through which gradients flow: what they return is a constant to autograd."""

    def __init__(self, writer: EventWriter) -> None:
        self.writer = writer
        self._seen: set[tuple[str, int]] = set()
        self._open: list[tuple[Any, Any, str, str, int]] = []  # the list of the script, what was in it, op and place
        register_optimizer_step_post_hook(lambda *_: self.report())

    def look(self, op: str, tensors: list[torch.Tensor], caller: FrameType | None) -> None:
        """Remember a call that gathers such a tensor until a backward pass of DDP, or the next step; each line once.

        Of a vector for each sample, which a loss may compare; single numbers are gathered to be printed.
        """
        if not torch.is_grad_enabled() or not any(each.requires_grad and each.dim() > 1 for each in tensors):
            return
        file, line = locate(caller)
        if (file, line) not in self._seen and source_location.is_own(file):
            self._seen.add((file, line))
            listed = _argument(caller, "tensor_list")
            self._open.append((listed, list(listed) if type(listed) is list else None, op, file, line))

    def report(self) -> None:
        """Report those that did not put a tensor of its own into the list, as the usual remedy does."""
        opened, self._open = self._open, []
        for listed, before, op, file, line in opened:
            if before is None or all(one is other for one, other in zip(listed, before, strict=False)):
                self.writer.send(GatheredGradient(self.writer.now(), self.writer.rank, line, file, op))


def _argument(caller: FrameType | None, name: str) -> Any:
    """The first argument with which the script called a collective, which torch may have copied since; None if unknown.

    torch wraps its collectives in a function that logs them, and has the arguments as they came.
    """
    logged = caller.f_back if caller and caller.f_code.co_filename == C10D else None
    given = logged.f_locals if logged else {}
    args, named = given.get("args"), given.get("kwargs")
    return args[0] if isinstance(args, tuple) and args else named.get(name) if isinstance(named, dict) else None
