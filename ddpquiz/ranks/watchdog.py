"""The watchdog of a run: whether nothing moves on any rank, and where each of them stands."""

from __future__ import annotations

import itertools
import math
import re
from typing import Literal, NamedTuple

from ddpquiz.events.event import JOIN, RankStack
from ddpquiz.events.run_state import RunState
from ddpquiz.events.source_text import Frame, frames_in
from ddpquiz.ranks.forks import STACK_BY_FORCE, STACK_SIGNAL
from ddpquiz.ranks.inside import BETWEEN
from ddpquiz.ranks.processes import Processes

ANSWER = 0.3  # seconds in which ranks write their stacks
_BY_FORCE = 1.0  # seconds after which a rank that has not written it probably holds Python's lock, in C
_LATEST = 2.0  # seconds, on a busy machine; a rank that has not written its stack by then cannot
_JOINING = 5.0  # seconds that ranks may take to connect once all of them are in init_process_group
_TICK = 0.015  # seconds of processor time that may be a tick of the kernel's clock
_IDLE = 0.03  # of a core: waiting ranks use less, in the threads of torch; a computing rank of a busy machine uses more
# Files whose code waits for other ranks
_COMMUNICATION = re.compile(rf"torch.distributed.|ddpquiz.ranks.inside.({'|'.join(BETWEEN)})\.py$")
_WORKER = re.compile(r"ddpquiz.ranks.inside.worker\.py$")
# Its functions whose callers are not the learner's code; a claim calls another one
_RUN_SCRIPT = ("_run_script", "run")
_CRASH = "Fatal Python error"  # begins the stack of a crash
NOTICE = 10.0  # seconds without an operation or a line, after which a run of the user's own script is diagnosed
MISMATCH = 1.0  # seconds for which ranks may stay in an operation in which their calls do not match

Reason = Literal["hang", "mismatch", "stall", "stop"]


class Standstill(NamedTuple):
    """Why the watchdog looked, since when nothing has moved, and where every rank stands."""

    reason: Reason
    since: float
    positions: tuple[RankStack, ...]


class Watchdog:
    """Watches the ranks of a run; after `timeout` seconds without any movement they hang (None: never).

    With `diagnose` it also looks where ranks stand when their calls do not match, or nothing has been recorded for a
    while. Call `stop` to look for the last time.
    """

    def __init__(self, processes: Processes, timeout: float | None, script: str, *, diagnose: bool = False) -> None:
        self.processes, self.timeout, self.script, self.diagnose = processes, timeout, script, diagnose
        self.moved_at = 0.0
        self._recorded_at = 0.0  # when an operation or a line was recorded
        self._noticed = False  # the standstill since then was reported
        self.stopping = False
        self.stacks: dict[int, str] = {}
        self._asked: tuple[Reason, float, float] | None = None  # why, when, and since when nothing has moved
        self._by_force = 0.0  # when ranks that have not written their stack are asked once more
        self._latest = 0.0  # by then every rank that can has written its stack
        self._cpu: dict[int, float] = {}
        self._cpu_at = 0.0

    def moved(self, now: float) -> None:
        self.moved_at = max(self.moved_at, now)
        self._recorded_at, self._noticed = now, False

    def stop(self) -> None:
        """Look where every rank stands as soon as possible."""
        self.stopping, self._asked = True, None

    def request_stacks(self) -> None:
        self.stacks = {rank: stack for rank, stack in self.stacks.items() if _CRASH in stack}  # written only once
        now = self.processes.now()
        self._by_force, self._latest = now + _BY_FORCE, now + _LATEST
        self.processes.signal(STACK_SIGNAL)

    def has_stacks(self, now: float) -> bool:
        """Whether every rank that lives and is not stopped has written its stack, or will not any more.

        Those that have not written it for long are asked once more, by force.
        """
        living = (rank for rank in self.processes.living_ranks() if rank not in self.stacks)
        missing = tuple(rank for rank in living if not self.processes.is_stopped(rank))
        if missing and now > self._by_force and STACK_BY_FORCE:
            self._by_force = math.inf
            self.processes.signal(STACK_BY_FORCE, missing)
        return now > self._latest or not missing

    def add_stack(self, rank: int, text: str) -> None:
        self.stacks[rank] = self.stacks.get(rank, "") + text

    def crash_stack(self, rank: int) -> str:
        """The stack that a rank wrote when it crashed, if it did."""
        stack = self.stacks.get(rank, "").partition(_CRASH)[2]
        return "".join(line + "\n" for line in stack.splitlines() if line.startswith("  File "))

    def look(self, now: float, seen: RunState) -> Standstill | None:
        """Where every rank stands, once there is a reason to look; call this often."""
        if self._asked is not None:
            return self._answer(*self._asked, now, seen)
        if found := self._reason(now, seen):
            self._asked = found[0], now, found[1]
            self.request_stacks()
        return None

    def _answer(self, reason: Reason, asked_at: float, since: float, now: float, seen: RunState) -> Standstill | None:
        """What the stacks show, once they are there; nothing if something has moved meanwhile."""
        if now - asked_at < ANSWER or not self.has_stacks(now):
            return None
        self._asked, positions = None, self.positions(seen)
        if reason == "stall":
            self._noticed = True
        moved = reason in ("hang", "stall") and self._recorded_at > asked_at
        if moved or (reason == "hang" and not self.diagnose and not any(each.waits_in for each in positions)):
            self.moved_at = now
            return None
        return Standstill(reason, since, positions)

    def _reason(self, now: float, seen: RunState) -> tuple[Reason, float] | None:
        """Why to ask ranks where they stand, and since when."""
        if self.stopping:
            return "stop", self._recorded_at
        if self.diagnose and (since := seen.timeline.mismatched_since()) is not None and now - since > MISMATCH:
            return "mismatch", since
        silent = self.timeout is not None and now - self.moved_at > self._patience(seen)
        if silent and not self._is_working(now, seen):
            return "hang", self.moved_at
        if self.diagnose and not self._noticed and now - self._recorded_at > NOTICE:
            return "stall", self._recorded_at
        return None

    def _patience(self, seen: RunState) -> float:
        """Return after how many seconds without movement the ranks hang.

        While all of them are in init_process_group no rank is missing: the network may just be slow.
        """
        joining = all(seen.communicates_in(rank) == JOIN for rank in seen.all_ranks)
        return max(self.timeout or 0.0, _JOINING if joining else 0.0)

    def positions(self, seen: RunState) -> tuple[RankStack, ...]:
        """Where every rank stands, by the stacks that they have written."""
        return tuple(self._position(rank, seen) for rank in seen.all_ranks)

    def _position(self, rank: int, seen: RunState) -> RankStack:
        stack = self.stacks.get(rank, "")
        frames = list(itertools.takewhile(_is_of_script, frames_in(stack)))
        inside = next((at for at, frame in enumerate(frames) if frame[0] == self.script), len(frames))
        file, line, _ = frames[inside] if inside < len(frames) else frames[0] if frames else ("", 0, "")
        waits_in = seen.blocked_in(rank) or seen.communicates_in(rank)
        if not waits_in and any(_COMMUNICATION.search(frame[0]) for frame in frames[:inside]):
            waits_in = "wait"  # for an operation that has ended already, or for the store
        return RankStack(rank, waits_in, file, line, stack)

    def _is_working(self, now: float, seen: RunState) -> bool:
        """Whether a silent rank uses a processor, or waits for a disk, as while a busy one writes a checkpoint.

        Torch spins while a rank waits for a GPU, so the processor time of such a rank does not count.
        """
        on_gpu = seen.began is not None and seen.began.device == "cuda"
        used, before = self.processes.cpu_seconds(), self._cpu
        spent = sum(
            seconds - before.get(rank, 0.0)
            for rank, seconds in used.items()
            if not (on_gpu and seen.communicates_in(rank))
        )
        works = spent > max(_TICK, _IDLE * (now - self._cpu_at)) or self.processes.wait_for_disk()
        self._cpu, self._cpu_at = used, now
        if works:
            self.moved_at = now - (self.timeout or 0) / 2  # look again in half the time
        return works


def _is_of_script(frame: Frame) -> bool:
    return frame.name not in _RUN_SCRIPT or not _WORKER.search(frame.file)
