"""Stepping: the ranks of a run stop before each operation, and go on together.

A rank tells what it is about to call, and then waits at its gate for a word from the launcher. Waiting for all ranks to
come there would never end where only some take part, so they stand still once each one is at its gate, or silent and
idle: blocked in a communication with one that is. Time stands still with them: the clocks of the script are put back by
as much, and so are the times of what is told of the run, so that nothing that is measured depends on how long somebody
looks.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ddpquiz.analysis.events import Began, Ended, Exited, Issued, Waited

if TYPE_CHECKING:
    from collections.abc import Callable

    from ddpquiz.analysis.events import Event
    from ddpquiz.analysis.run_state import RunState
    from ddpquiz.ranks.processes import Processes

QUIET = 0.1  # seconds without a word and without computing, after which a rank is blocked
RECORD = struct.Struct("<id")  # what a rank hears: steps that it may take, seconds for which all have stood still
TICKS = 0.025  # seconds of processor time that are none: two ticks of the kernel's clock


class Gate:
    """Where a rank waits; when the launcher has closed its end, the way is free, and in what the rank forks it is."""

    def __init__(self, fd: int) -> None:
        self._channel: socket.socket | None = socket.socket(fileno=os.dup(fd))
        self._lock = threading.Lock()
        self._heard = b""
        self._steps = 0  # that the launcher allows
        self._stood = 0.0  # seconds for which all ranks have stood still
        os.register_at_fork(after_in_child=self._open)

    def wait(self) -> None:
        """Wait for the launcher."""
        with self._lock:
            while self._channel and not self._steps:
                self._hear(self._channel)
            self._steps -= 1

    def stop_clocks(self) -> None:
        """Let the clocks that a script reads stand still while all ranks do."""
        for name in ("time", "perf_counter", "monotonic"):
            setattr(time, name, self._clock(getattr(time, name), 1))
            setattr(time, f"{name}_ns", self._clock(getattr(time, f"{name}_ns"), 1_000_000_000))

    def _clock(self, original: Callable[[], Any], per_second: int) -> Callable[[], Any]:
        def clock() -> Any:
            now = original()
            if self._channel and self._lock.acquire(blocking=False):
                with contextlib.suppress(BlockingIOError):
                    self._hear(self._channel, socket.MSG_DONTWAIT)
                self._lock.release()
            return now - type(now)(self._stood * per_second)

        return clock

    def _hear(self, channel: socket.socket, flags: int = 0) -> None:
        data = channel.recv(4096, flags)
        if not data:
            self._open()
        self._heard += data
        whole = len(self._heard) // RECORD.size * RECORD.size
        for steps, stood in RECORD.iter_unpack(self._heard[:whole]):
            self._steps += steps
            self._stood = stood
        self._heard = self._heard[whole:]

    def _open(self) -> None:
        self._channel, self._lock = None, threading.Lock()


class Gates:
    """The gates of a run, seen by the launcher; `before` holds the operations before which ranks stand."""

    def __init__(self, processes: Processes, seen: RunState) -> None:
        self.processes, self.seen = processes, seen
        self.before: dict[int, list[Issued]] = {}
        self.open = False
        self._changed_at = 0.0  # when a rank last said something, or used the processor, or went on
        self._noticed_at = 0.0  # when we last saw that they stand still
        self._pauses: list[tuple[float, float, float]] = []  # since when they stood, till when, and how long until then
        self._cpu = 0.0

    def hear(self, event: Event) -> None:
        """Take in what a rank has said."""
        if isinstance(event, Began):
            return
        self._changed_at = max(self._changed_at, event.time)
        if isinstance(event, Issued) and not self.open:
            self.before.setdefault(event.rank, []).append(event)
        elif isinstance(event, Exited):
            self.before.pop(event.rank, None)

    def stand_still(self, now: float) -> bool:
        """Whether some ranks stand at their gates and the others cannot go on without them; call it often."""
        still = bool(self.before) and (self.processes.pids.keys() <= self.before.keys() or self._is_quiet(now))
        if still and self._noticed_at < self._changed_at:
            self._noticed_at = now
        return still

    def _is_quiet(self, now: float) -> bool:
        if now - self._changed_at < QUIET:
            return False
        used, before = self.processes.cpu_seconds(), self._cpu
        if used - before > TICKS:
            self._cpu, self._changed_at = used, now
            return False
        return True

    def step(self, now: float) -> None:
        """Let every rank that stands at its gate go on."""
        blocked = all(rank in self.before or self.seen.waits_in(rank) for rank in self.processes.pids)
        since = self._changed_at if blocked else max(self._changed_at, self._noticed_at)  # one may have slept till then
        stood = (self._pauses[-1][2] if self._pauses else 0.0) + max(0.0, now - since)
        self._pauses.append((since, max(since, now), stood))
        for rank in self.processes.pids:
            self.processes.speak(rank, RECORD.pack(len(self.before.get(rank, ())), stood))
        self._changed_at = now
        self.before.clear()

    @property
    def went_on_at(self) -> float:
        """When the ranks last went on, by a clock that stands still whenever they do."""
        return self.clock(self._pauses[-1][1]) if self._pauses else 0.0

    def clock(self, at: float) -> float:
        """Return what a clock shows at a time of the run, if it stands still whenever the ranks do."""
        began = bisect_left(self._pauses, at, key=lambda pause: pause[0])
        if not began:
            return at
        since, until, stood = self._pauses[began - 1]
        return round(at - stood + max(0.0, until - max(at, since)), 6)

    def timed(self, event: Event) -> Event:
        """Return an event by that clock."""
        match event:
            case Began():
                return event
            case Waited():
                return replace(event, time=self.clock(event.time), since=self.clock(event.since))
            case Ended(started=float(started)):
                return replace(event, time=self.clock(event.time), started=self.clock(started))
        return replace(event, time=self.clock(event.time))

    def let_go(self) -> None:
        """Let every rank go on, and never stop again."""
        self.step(self.processes.now())
        self.open = True
        self.processes.let_go()
