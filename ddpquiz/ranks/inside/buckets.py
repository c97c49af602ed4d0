"""The buckets of gradients that DDP's reducer issues while autograd goes backward, and when it waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from ddpquiz.ranks.inside import source_location
from ddpquiz.ranks.inside.operators import ENGINE

if TYPE_CHECKING:
    from types import FrameType

    from ddpquiz.ranks.inside.recorder import Open, Recorder


class Buckets:
    """The buckets of one pass of autograd through a graph; with the next pass it begins anew."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.open: list[Open] = []
        self._pass = -1
        self._counted = 0  # buckets that the reducer issued itself, without a hook
        self._done = 0.0  # when autograd was, and the reducer began to wait for its buckets
        self._standing: tuple[str, int] | None = None  # the whole pass is one line of the script

    def number(self, op: str, brought: list[torch.Tensor], caller: FrameType | None) -> int | None:
        """Return the number of the bucket that is being reduced, or None if this is something else.

        The reducer calls from within autograd: itself, with no frame of Python in between, or through a hook, whose
        second parameter must be called `bucket`.
        """
        task = torch._C._current_graph_task_id()
        if task == -1:
            return None
        hook = None
        while caller is not None and caller.f_code is not ENGINE:
            hook, caller = caller, caller.f_back
        if hook is not None:
            bucket: Any = hook.f_locals.get("bucket")
            if not isinstance(bucket, dist.GradBucket):
                return None
        elif op != "all_reduce" or not (brought[0].is_floating_point() or brought[0].is_complex()):
            return None  # the map of unused parameters holds integers
        if task != self._pass:
            self._pass, self._counted, self.open, self._standing = task, 0, [], None
            torch.autograd.Variable._execution_engine.queue_callback(self._pass_done)
        if hook is not None:
            return int(bucket.index())
        self._counted += 1
        return self._counted - 1

    def standing(self, caller: FrameType | None) -> tuple[str, int]:
        """Return the file and line where the program stands in this pass; a hook may stand in lines of its own."""
        if caller is None or caller.f_code is not ENGINE:
            return source_location.standing(self.recorder.script, caller)
        if self._standing is None:
            self._standing = source_location.standing(self.recorder.script, caller)
        return self._standing

    def _pass_done(self) -> None:
        """Note that autograd is done; the reducer waits for its buckets next, in a callback that is queued by now."""
        self._done = self.recorder.waits(self.open[-1]) if self.open else self.recorder.teller.now()
        torch.autograd.Variable._execution_engine.queue_callback(self._reduced)

    def _reduced(self) -> None:
        """Tell what the reducer has waited for, and what that left."""
        try:
            for opened in self.open:
                self.recorder.forget(opened)
                last = opened is self.open[-1]
                self.recorder.waited(opened, self._done if last else self.recorder.teller.now())
        except Exception as fault:  # noqa: BLE001  # a fault of the recorder must never reach the script
            self.recorder.missed(fault)
        self.open = []
