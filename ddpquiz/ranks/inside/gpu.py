"""Where work on a GPU begins and ends, found out by asking now and then: nothing ever waits for a GPU.

On a GPU a call returns, and its future is done, when the work has been queued. Whether the GPU has come to it, and
whether it is done with it, can be asked without waiting.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

PACE = 0.001  # seconds between two looks


@dataclass(slots=True, eq=False)
class Queued:
    """Work in the queue of a GPU: two questions, and what is told once, with the time when it was seen to begin."""

    has_begun: Callable[[], bool]
    has_ended: Callable[[], bool]
    tell: Callable[[float], None]
    began: float | None = None


class GpuPoller:
    """Tells when queued work has ended, from a thread of its own; `now` is its clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self._queued: list[Queued] = []
        self._some = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, work: Queued) -> None:
        """Look after this work."""
        self._queued.append(work)
        self._some.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="ddpquiz looks after the GPU", daemon=True)
            self._thread.start()

    def look(self) -> None:
        """Ask about everything that is queued, and tell of what has ended."""
        for work in list(self._queued):
            ended = work.has_ended()
            if work.began is None and (ended or work.has_begun()):
                work.began = self.now()
            if ended and work.began is not None:
                self._queued.remove(work)
                work.tell(work.began)

    def _watch(self) -> None:
        while True:
            self._some.wait()
            self._some.clear()
            while self._queued:
                self.look()
                time.sleep(PACE)


def mark_for(brought: Any) -> Any:
    """Return an event that the GPU passes when it comes to this call; None where no GPU has to do with it."""
    while isinstance(brought, list | tuple) and brought:
        brought = brought[0]
    on_gpu = isinstance(brought, torch.Tensor) and brought.is_cuda and not torch.cuda.is_current_stream_capturing()
    return mark() if on_gpu else None


def mark() -> Any:
    """Return an event that the GPU passes when all that has been queued so far is done."""
    event = torch.cuda.Event()
    event.record()
    return event
