"""When work on a GPU begins and ends, found by polling: nothing ever waits for a GPU.

On a GPU a call returns, and its future is done, when the work has been queued. Whether the GPU has begun or finished
the work can be queried without waiting.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

PACE = 0.001  # seconds between two polls


@dataclass(slots=True, eq=False)
class Queued:
    """Work in the queue of a GPU. `report` is called once it has ended, with the time at which it was seen to begin."""

    has_begun: Callable[[], bool]
    has_ended: Callable[[], bool]
    report: Callable[[float], None]
    began: float | None = None


class GpuPoller:
    """Reports when queued work has ended, from a thread of its own; `now` is its clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self._queued: list[Queued] = []
        self._some = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, work: Queued) -> None:
        self._queued.append(work)
        self._some.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="ddpquiz GPU poller", daemon=True)
            self._thread.start()

    def poll(self) -> None:
        """Query all queued work once, and report what has ended."""
        for work in list(self._queued):
            ended = work.has_ended()
            if work.began is None and (ended or work.has_begun()):
                work.began = self.now()
            if ended and work.began is not None:
                self._queued.remove(work)
                work.report(work.began)

    def _watch(self) -> None:
        while True:
            self._some.wait()
            self._some.clear()
            while self._queued:
                self.poll()
                time.sleep(PACE)


def mark_for(tensors: Any) -> Any:
    """Return an event that the GPU passes when it reaches this call; None if the tensors are not on a GPU."""
    while isinstance(tensors, list | tuple) and tensors:
        tensors = tensors[0]
    on_gpu = isinstance(tensors, torch.Tensor) and tensors.is_cuda and not torch.cuda.is_current_stream_capturing()
    return mark() if on_gpu else None


def mark() -> Any:
    """Return an event that the GPU passes when everything that is queued so far is done."""
    event = torch.cuda.Event()
    event.record()
    return event
