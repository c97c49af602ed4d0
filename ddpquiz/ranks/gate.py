"""Stepping: the ranks of a run stop before each operation, and go on together.

A rank tells what it is about to call, and then waits for a byte from the launcher at its gate. Waiting for all ranks to
come there would never end where only some take part, so they stand still once each one is at its gate, or silent and
idle: blocked in a communication with one that is.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ddpquiz.ranks.events import Began, Exited, Issued

if TYPE_CHECKING:
    from ddpquiz.ranks.events import Event
    from ddpquiz.ranks.processes import Processes

QUIET = 0.1  # seconds without a word and without computing, after which a rank is blocked
TICKS = 0.025  # seconds of processor time that are none: two ticks of the kernel's clock


class Gate:
    """Where a rank waits; when the launcher has closed its end, the way is free, and in what the rank forks it is."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        os.register_at_fork(after_in_child=self._open)

    def wait(self) -> None:
        """Wait for the launcher."""
        if self.fd >= 0:
            os.read(self.fd, 1)

    def _open(self) -> None:
        self.fd = -1


class Gates:
    """The gates of a run, seen by the launcher; `before` holds the operations before which ranks stand."""

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        self.before: dict[int, list[Issued]] = {}
        self.open = False
        self._changed_at = 0.0  # when a rank last said something, or used the processor, or went on
        self._cpu = 0.0

    def hear(self, event: Event, now: float) -> None:
        """Take in what a rank has said."""
        if isinstance(event, Began):
            return
        self._changed_at = now
        if isinstance(event, Issued) and not self.open:
            self.before.setdefault(event.rank, []).append(event)
        elif isinstance(event, Exited):
            self.before.pop(event.rank, None)

    def stand_still(self, now: float) -> bool:
        """Whether some ranks stand at their gates and the others cannot go on without them; call it often."""
        if not self.before or self.processes.pids.keys() <= self.before.keys():
            return bool(self.before)
        if now - self._changed_at < QUIET:
            return False
        used, before = self.processes.cpu_seconds(), self._cpu
        if used - before > TICKS:
            self._cpu, self._changed_at = used, now
            return False
        return True

    def step(self, now: float) -> None:
        """Let every rank that stands at its gate go on."""
        self._changed_at = now
        for rank, calls in self.before.items():
            self.processes.release(rank, len(calls))
        self.before.clear()

    def let_go(self) -> None:
        """Let every rank go on, and never stop again."""
        self.open = True
        self.before.clear()
        self.processes.let_go()
