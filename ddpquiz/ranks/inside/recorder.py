"""Inside a rank: see every collective and point-to-point operation, whoever issues it.

Each of them, also the bucket all-reduces of DDP's C++ reducer, passes through an operator of the dispatcher's `c10d`
library. A kernel registered at BackendSelect runs before the backend's own, notes the call and hands it on unchanged.
Where an operation ends is told by whoever waits for it, or by the future of its work; point-to-point work has none on
Gloo. This rests on private names of torch: where they are gone, the run goes on unwatched and says so.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from ddpquiz.analysis.events import Note
from ddpquiz.ranks.inside.buckets import Buckets
from ddpquiz.ranks.inside.gpu import GpuPoller, Queued, mark, mark_for
from ddpquiz.ranks.inside.operators import C10D, Operator, are_few, members_of, name_of, tensors_in, values_of, work_of
from ddpquiz.ranks.inside.source_location import standing

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from ddpquiz.ranks.inside.event_writer import EventWriter

LONG = 50e-6  # seconds; a wait that is shorter is none
MOST_OPEN = 1000  # operations that nobody has waited for, before the oldest is forgotten
_unboxed_group = dist.ProcessGroup.unbox
_LIBRARIES: list[torch.library.Library] = []


@dataclass(slots=True, eq=False)
class Open:
    """An operation that nobody has waited for yet; its work is kept, so that its `wait` finds it."""

    number: int
    work: Any
    outputs: list[torch.Tensor]  # where they are few
    since: float = 0.0  # when a call began that returns when it has ended
    on_gpu: bool = False  # then it ends when the GPU is done with it, not when the script has waited
    awaited: bool = False  # it was told that the script begins to wait for it
    storages: list[int] = field(default_factory=list)  # its keys in Recorder.by_storage
    senders: tuple[int, ...] = ()  # one of whom a receive from anybody gets something


class Recorder:
    """Notes the operations of this rank; `script` is the file whose lines are named."""

    def __init__(self, teller: EventWriter, script: str) -> None:
        self.teller, self.script = teller, script
        self.numbers = itertools.count(1)
        self.running: set[int] = set()  # numbers of operations whose end has not been told
        self.by_work: dict[int, Open] = {}
        self.by_storage: dict[int, Open] = {}  # what functional collectives issued, by where the output lies
        self.buckets = Buckets(self)
        self.lookout = GpuPoller(teller.now)

    def install(self) -> None:
        """Put a kernel in front of each operator."""
        below = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
        names = [full.split("::")[1] for full in torch._C._dispatch_get_all_op_names() if full.startswith("c10d::")]
        kernels = [("_c10d_functional", "wait_tensor", self.wait_tensor(below))]
        for name in names:
            overload = getattr(torch.ops.c10d, name).default
            if any(argument.name == "process_group" for argument in overload._schema.arguments):
                kernels.append(("c10d", name, self.kernel(Operator.of(overload, name), below)))
        for namespace, name, kernel in kernels:
            library = torch.library.Library(namespace, "IMPL")
            library.impl(name, kernel, "BackendSelect", with_keyset=True)
            _LIBRARIES.append(library)
        self.watch_wait()

    def kernel(self, operator: Operator, below: Any) -> Callable[..., Any]:
        """Return what runs in place of an operator."""
        redispatch = operator.redispatch

        def kernel(keyset: Any, *args: Any) -> Any:
            told, begun, caller = None, None, sys._getframe().f_back
            try:
                told = self.issue(operator, args, caller)
                begun = mark_for(args[operator.brings])
            except Exception as fault:  # noqa: BLE001  # a fault of the recorder must never reach the script
                self.missed(fault)
            try:
                out = redispatch(keyset & below, *args)  # drops the GIL
            except BaseException:
                if told:
                    self.refused(told[0])
                raise
            try:
                if told:
                    self.follow(operator, args, caller, out, begun, *told)
            except Exception as fault:  # noqa: BLE001  # the same
                self.missed(fault)
            return out

        return kernel

    def issue(
        self, operator: Operator, args: tuple[Any, ...], caller: FrameType | None
    ) -> tuple[int, float, bool, int | None]:
        """Tell that an operation begins; return its number, when, whether it is asynchronous, and its bucket."""
        op = operator.op
        group = _unboxed_group(args[operator.group]).group_name
        members = members_of(group)
        peer = None if operator.peer is None else args[operator.peer]
        if peer is not None and 0 <= peer < len(members):
            peer = members[peer]
        brought, values = tensors_in(args[operator.brings]), op != "recv"  # a receive brings nothing but room
        if not brought and operator.leaves is not None:
            brought, values = tensors_in(args[operator.leaves]), False
        if op.endswith("barrier"):
            brought = []
        elif len(brought) == 1:
            op = op.removesuffix("_coalesced")  # functional collectives issue a single tensor so
        bucket = self.buckets.number(op, brought, caller)
        asynchronous = operator.is_asynchronous(args, caller)
        file, line = standing(self.script, caller) if bucket is None else self.buckets.standing(caller)
        number, now = next(self.numbers), self.teller.now()
        self.running.add(number)
        self.teller.write(self.teller.issued(
            now, number, values_of(brought) if values else (), bucket,
            op, members, peer, tuple([tensor.shape for tensor in brought]),
            name_of(brought[0].dtype) if brought else "",
            sum([tensor.numel() * tensor.element_size() for tensor in brought]),
            file, line, group, operator.reduce_op(args, caller), asynchronous,
        ))  # fmt: skip
        return number, now, asynchronous, bucket

    def refused(self, number: int) -> None:
        """Tell that an operation failed before there was a work to wait for."""
        self.running.discard(number)
        self.teller.write(self.teller.ended(self.teller.now(), number, failed=True))

    def follow(
        self, operator: Operator, args: tuple[Any, ...], caller: FrameType | None, out: Any, begun: Any, number: int,
        since: float, asynchronous: bool, bucket: int | None,
    ) -> None:  # fmt: skip
        """Find out where an operation that was issued will end."""
        work = work_of(out)
        outputs = [] if operator.leaves is None else tensors_in(args[operator.leaves])
        opened = Open(
            number, work, outputs if are_few(outputs) else [], 0.0 if asynchronous else since, begun is not None
        )
        if operator.op == "recv" and operator.peer is None:
            opened.senders = members_of(dist.ProcessGroup.unbox(args[operator.group]).group_name)
        if begun is not None:
            self.look_after(opened, begun)
        if work is None:  # a monitored barrier has ended when the call returns
            self.waited(opened, since)
            return
        self.keep(self.by_work, id(work), opened)
        if bucket is not None:
            self.buckets.open.append(opened)
        elif asynchronous and caller is not None and caller.f_code.co_filename != C10D:
            opened.storages = [tensor.untyped_storage().data_ptr() for tensor in outputs]
            for storage in opened.storages:
                self.keep(self.by_storage, storage, opened)
        if asynchronous and not opened.on_gpu:
            with contextlib.suppress(RuntimeError):  # this work has no future: whoever waits tells its end
                work.get_future().add_done_callback(lambda future: self.done(opened, failed=_failed(future)))

    def look_after(self, opened: Open, begun: Any) -> None:
        """Find out when the GPU comes to an operation, which is when it passes `begun`, and when it is done with it."""

        def tell(began: float) -> None:
            if opened.number in self.running:
                self.running.remove(opened.number)
                self.teller.write(self.teller.ended(self.teller.now(), opened.number, began))
            self.forget(opened)

        has_ended = mark().query if opened.work is None else opened.work.is_completed
        self.lookout.add(Queued(begun.query, has_ended, tell))

    def copy(self, opened: Open) -> None:
        """Let the GPU copy what an operation left, behind what the script has waited for, and tell it when it has."""
        copies = [torch.empty_like(each, device="cpu", pin_memory=True) for each in opened.outputs]
        for copy, each in zip(copies, opened.outputs, strict=True):
            copy.copy_(each, non_blocking=True)
        copied = mark().query

        def tell(_: float) -> None:
            self.teller.write(self.teller.result(self.teller.now(), opened.number, values_of(copies)))

        self.lookout.add(Queued(copied, copied, tell))

    def keep(self, where: dict[int, Open], key: int, opened: Open) -> None:
        """Keep an operation until somebody waits for it; of those that nobody waits for, keep no more than some."""
        where[key] = opened
        if len(where) > MOST_OPEN:
            del where[next(iter(where))]

    def forget(self, opened: Open) -> None:
        """Let go of the work and the tensors of an operation."""
        self.by_work.pop(id(opened.work), None)
        for storage in opened.storages:
            if self.by_storage.get(storage) is opened:
                del self.by_storage[storage]

    def end(self, opened: Open, now: float, *, failed: bool = False) -> str:
        """Return what tells that an operation has ended, once: its future and its wait may both say so."""
        try:
            self.running.remove(opened.number)
        except KeyError:
            return ""
        source = opened.senders[opened.work._source_rank()] if opened.senders and not failed else None
        return self.teller.ended(now, opened.number, source=source, failed=failed)

    def done(self, opened: Open, *, failed: bool = False) -> None:
        """Tell that an operation has ended; called by its future, on a thread of the backend."""
        try:
            if told := self.end(opened, self.teller.now(), failed=failed):
                self.teller.write(told)
            if not opened.outputs:  # nobody needs to see what it left
                self.forget(opened)
        except Exception as fault:  # noqa: BLE001  # the same
            self.missed(fault)

    def waits(self, opened: Open) -> float:
        """Tell that the script begins to wait for what ran beside it; return since when."""
        now = self.teller.now()
        if not (opened.on_gpu or opened.work.is_completed()):
            opened.awaited = True
            self.teller.write(self.teller.waiting(now, opened.number))
        return now

    def waited(self, opened: Open, since: float, *, failed: bool = False) -> None:
        """Tell that the script has waited for an operation, and what that left."""
        now = self.teller.now()
        told = "" if opened.on_gpu and not failed else self.end(opened, now, failed=failed)
        if opened.awaited or now - since > LONG:
            told += self.teller.waited(now, opened.number, since)
        if opened.outputs and opened.on_gpu and not failed:
            self.copy(opened)
        elif opened.outputs and not failed:
            told += self.teller.result(now, opened.number, values_of(opened.outputs))
        if told:
            self.teller.write(told)

    def watch_wait(self) -> None:
        """See the script wait for an operation."""
        original = dist.Work.wait

        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            opened = self.by_work.get(id(work))
            since = (opened.since or self.waits(opened)) if opened else 0.0
            failed = True
            try:
                done = original(work, *args, **kwargs)
                failed = False
            finally:
                if opened and self.by_work.pop(id(work), None):
                    try:
                        self.waited(opened, since, failed=failed)
                    except Exception as fault:  # noqa: BLE001  # the same
                        self.missed(fault)
            return done

        dist.Work.wait = wait

    def wait_tensor(self, below: Any) -> Callable[..., Any]:
        """Return what runs in place of the operator that waits for a functional collective."""
        redispatch = torch.ops._c10d_functional.wait_tensor.default._handle.redispatch_boxed

        def kernel(keyset: Any, tensor: torch.Tensor) -> torch.Tensor:
            opened, since = None, 0.0
            try:
                opened = self.by_storage.pop(tensor.untyped_storage().data_ptr(), None) if self.by_storage else None
                since = self.waits(opened) if opened else 0.0
            except Exception as fault:  # noqa: BLE001  # the same
                self.missed(fault)
            out: torch.Tensor = redispatch(keyset & below, tensor)
            try:
                if opened:
                    self.forget(opened)
                    self.waited(opened, since)
            except Exception as fault:  # noqa: BLE001  # the same
                self.missed(fault)
            return out

        return kernel

    def missed(self, fault: Exception) -> None:
        """Say that the recorder failed."""
        self.teller.tell(Note(self.teller.now(), self.teller.rank, f"The recorder missed an operation: {fault!r}"))


def install(teller: EventWriter, script: str) -> None:
    """Record every operation from now on; `script` is the file whose lines are named."""
    try:
        Recorder(teller, script).install()
    except (AttributeError, RuntimeError) as gone:
        text = f"This torch ({torch.__version__}) does not let its collectives be watched: {gone}"
        teller.tell(Note(teller.now(), teller.rank, text))


def _failed(future: Any) -> bool:
    try:
        future.value()
    except RuntimeError:
        return True
    return False
