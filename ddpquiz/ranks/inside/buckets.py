"""The buckets of gradients that DDP's reducer issues during a backward, and when it waits for them."""

import ctypes
import zlib
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist

from ddpquiz.analysis.events import Marked
from ddpquiz.ranks.inside import source_location
from ddpquiz.ranks.inside.operations import OpenOperation, OpenOperations

REPORTS = 8  # backwards whose gradients are compared across ranks
SUMMED = 4096  # bytes of the first bucket that are compared


class Buckets:
    """The buckets of the latest backward."""

    def __init__(self, operations: OpenOperations) -> None:
        self.operations, self.private = operations, operations.private
        self.open: list[OpenOperation] = []
        self._backward = -1
        self._reports = REPORTS
        self._counted = 0  # buckets that the reducer issued itself, without a hook
        self._done = 0.0  # when autograd was done, and the reducer began to wait for its buckets
        self._location: tuple[str, int] | None = None  # the line of the script that called backward

    def number(self, op: str, tensors: list[torch.Tensor], caller: FrameType | None) -> int | None:
        """Return the number of the bucket that is being reduced, or None if this is something else.

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
            return None  # the map of unused parameters holds integers
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
        data = ctypes.string_at(gradients.data_ptr(), min(gradients.nbytes, SUMMED))
        if any(data):
            writer = self.operations.writer
            writer.send(Marked(writer.now(), writer.rank, f"gradients {zlib.crc32(data):08x}", 0))

    def locate(self, caller: FrameType | None) -> tuple[str, int]:
        """Return the file and line that the program is at in this backward; a hook may have lines of its own."""
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
