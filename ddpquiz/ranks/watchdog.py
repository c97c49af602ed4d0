"""Notices that nothing moves on any rank of a run, and asks each of them where it stands."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from ddpquiz.analysis.events import RankPosition
from ddpquiz.analysis.stack_frames import frames_in
from ddpquiz.ranks.forks import STACK_SIGNAL
from ddpquiz.ranks.machines.cluster import AGENT

if TYPE_CHECKING:
    from ddpquiz.analysis.run_state import RunState
    from ddpquiz.ranks.processes import Processes

ANSWER = 0.3  # seconds in which ranks say where they stand
LATEST = 2.0  # seconds, on a busy machine; one that has said nothing by then cannot
# Files whose code waits for other ranks
COMMUNICATION = re.compile(r"torch.distributed.|ddpquiz.ranks.inside.recorder\.py$")
RUNS = re.compile(r"ddpquiz.ranks.inside.worker\.py$")  # runs the script, and was called by nothing of the reader's
CRASH = "Fatal Python error"  # how the stack of a crash begins


class Watchdog:
    """Watches the ranks of a run; after `timeout` seconds without any movement they hang (None: never)."""

    def __init__(self, processes: Processes, timeout: float | None, script: str) -> None:
        self.processes, self.timeout, self.script = processes, timeout, script
        self.moved_at = 0.0
        self.asked_at: float | None = None
        self._latest = 0.0  # by then all have answered who can
        self.stacks: dict[int, str] = {}
        self._cpu, self._cpu_at = 0.0, 0.0

    def moved(self, now: float) -> None:
        """Take note that something happened."""
        self.moved_at = max(self.moved_at, now)

    def ask(self) -> None:
        """Have every rank say where it stands."""
        self.stacks = {rank: stack for rank, stack in self.stacks.items() if CRASH in stack}  # it cannot say it again
        self._latest = self.processes.now() + LATEST
        self.processes.signal(STACK_SIGNAL)

    def has_heard(self, now: float) -> bool:
        """Whether every rank that lives and is not stopped has said where it stands, or will not any more."""
        asked = (rank for rank in self.processes.pids if rank not in self.stacks and rank != AGENT)
        return now > self._latest or all(map(self.processes.is_stopped, asked))

    def hear(self, rank: int, text: str) -> None:
        """Take in a piece of what a rank says about where it stands."""
        self.stacks[rank] = self.stacks.get(rank, "") + text

    def last_words(self, rank: int) -> str:
        """Return the stack that a rank told when it crashed, if it did."""
        told = self.stacks.get(rank, "").partition(CRASH)[2]
        return "".join(line + "\n" for line in told.splitlines() if line.startswith("  File "))

    def standing_still(self, now: float, seen: RunState) -> tuple[RankPosition, ...]:
        """Return where every rank stands once they hang, else nothing; call it often."""
        if self.asked_at is not None:
            if now - self.asked_at < ANSWER or not self.has_heard(now):
                return ()
            asked, self.asked_at = self.asked_at, None
            standing = self.standing(seen)
            if self.moved_at <= asked and any(rank.waits_in for rank in standing):
                return standing
            self.moved_at = now
        elif self.timeout is not None and now - self.moved_at > self.timeout and not self._computing(now):
            self.asked_at = now
            self.ask()
        return ()

    def standing(self, seen: RunState) -> tuple[RankPosition, ...]:
        """Return where every rank stands, by what it said when it was asked."""
        return tuple(self._standing(rank, seen) for rank in seen.here)

    def _standing(self, rank: int, seen: RunState) -> RankPosition:
        stack = self.stacks.get(rank, "")
        frames = list(itertools.takewhile(lambda frame: not RUNS.search(frame[0]), frames_in(stack)))
        inside = next((at for at, frame in enumerate(frames) if frame[0] == self.script), len(frames))
        file, line, _ = frames[inside] if inside < len(frames) else frames[0] if frames else ("", 0, "")
        waits_in = seen.waits_in(rank)
        if not waits_in and any(COMMUNICATION.search(frame[0]) for frame in frames[:inside]):
            waits_in = "wait"  # for an operation that has ended already, or for the store
        return RankPosition(rank, waits_in, file, line, stack)

    def _computing(self, now: float) -> bool:
        """Whether the silent ranks use a processor."""
        used, before = self.processes.cpu_seconds(), self._cpu
        busy = used - before > max(0.015, 0.005 * (now - self._cpu_at))  # a clock tick is 0.01 s
        self._cpu, self._cpu_at = used, now
        if busy:
            self.moved_at = now - (self.timeout or 0) / 2  # look again in half the time
        return busy
