"""Records every collective and point-to-point operation of a rank, whoever issues it.

Kernels (kernels.py) report each call. The end of an operation is reported by whoever waits for it, or by the future of
its work; on Gloo point-to-point work has none. All this rests on private names of torch (torch_private.py): if one of
them is missing, the run goes on unwatched, and a note says so.
"""

import itertools
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist

from ddpquiz.analysis.operation import Operation
from ddpquiz.ranks.inside import new_groups
from ddpquiz.ranks.inside.buckets import Buckets
from ddpquiz.ranks.inside.event_writer import EventWriter
from ddpquiz.ranks.inside.kernels import Kernels, registered
from ddpquiz.ranks.inside.native_waits import NativeWaits
from ddpquiz.ranks.inside.operations import OpenOperation, OpenOperations
from ddpquiz.ranks.inside.operators import C10D, Operator, are_few, name_of, tensors_in, values_of
from ddpquiz.ranks.inside.source_location import locate
from ddpquiz.ranks.inside.torch_private import TorchPrivate


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
        self.native_waits = NativeWaits(self.operations)
        self.buckets = Buckets(self.operations)

    def install(self, kernels: Kernels) -> None:
        """Let the kernels report calls from now on."""
        self._watch_wait()
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
        asynchronous = not self.native_waits.inside and operator.is_asynchronous(args, caller)
        file, line = locate(caller) if bucket is None else self.buckets.locate(caller)
        tag = args[operator.tag] if operator.tag is not None and tensors and not tensors[0].is_cuda else 0
        number, now = next(self.numbers), self.writer.now()
        self.operations.running.add(number)
        operation = Operation(
            op, members, peer, tuple([tensor.shape for tensor in tensors]),
            name_of(tensors[0].dtype) if tensors else "",
            sum([tensor.numel() * tensor.element_size() for tensor in tensors]),
            file, line, group, operator.reduce_op(args, caller), asynchronous, bucket, tag,
        )  # fmt: skip
        self.writer.write(self.writer.issued(now, number, values_of(tensors) if with_values else (), operation))
        return OpenOperation(number, now, asynchronous, bucket)

    def follow(
        self, opened: OpenOperation, operator: Operator, args: tuple[Any, ...], caller: FrameType | None
    ) -> None:
        """See to it that the end of an operation is reported."""
        has_use = self.values or opened.asynchronous
        outputs = [] if operator.outputs is None or not has_use else tensors_in(args[operator.outputs])
        if self.values and are_few(outputs):
            opened.outputs = outputs
        if operator.op == "recv" and operator.peer is None:
            opened.senders = self.members[self.private.unbox_group(args[operator.group]).group_name]
        if opened.on_gpu:
            self.operations.watch_gpu(opened)
        if opened.work is None:  # a monitored barrier has ended when the call returns
            self.operations.waited(opened, opened.since)
            return
        self.operations.add(self.operations.by_work, id(opened.work), opened)
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
        """Return the ranks of a group in the whole run."""
        members = self.members[group] = tuple(dist.get_process_group_ranks(self.private.find_group(group)))
        return members

    def _watch_wait(self) -> None:
        """Report when the script waits for an operation."""
        original, operations = dist.Work.wait, self.operations

        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
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


def install(writer: EventWriter, *, values: bool = True, every_wait: bool = False) -> Callable[[], None]:
    """Record every operation from now on, with the values of small tensors if `values` is set.

    See Recorder for `every_wait`. Return what is to be called when process
    groups are formed anew: they may reuse the names of older ones.
    """
    recorder = create(writer, values=values, every_wait=every_wait)
    return recorder.members.clear if recorder else lambda: None


def create(writer: EventWriter, *, values: bool, every_wait: bool = False) -> Recorder | None:
    """Return a recorder that is installed, or None if this torch does not allow that."""
    try:
        kernels = registered()
        recorder = Recorder(writer, kernels.private, values=values, every_wait=every_wait)
        recorder.install(kernels)
        new_groups.watch(writer)
    except (AttributeError, RuntimeError) as missing:
        writer.note(f"This torch ({torch.__version__}) does not allow collectives to be watched: {missing}")
        return None
    return recorder
