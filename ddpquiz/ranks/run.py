"""One run, from its first event to its last process: what ranks report, whether they hang, why the run failed.

The watchdog notices that nothing moves on any rank, and finds out where each of them stands.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from ddpquiz.diagnosis.rank_status import GRACE, hang_behind_timeouts, has_failed
from ddpquiz.diagnosis.run_verdict import advise_stopped, diagnose, note_standstill, tell_swallowed_failure
from ddpquiz.diagnosis.set_order import find_set_loops
from ddpquiz.errors import UserError
from ddpquiz.events.event import JOIN, Alive, Began, End, Event, Exited, Hung, Note, Raised, RankStack, when
from ddpquiz.events.formatting import Frame, format_place, frames_in
from ddpquiz.events.mismatch import Mismatch
from ddpquiz.events.replicas import Replicas
from ddpquiz.events.run_state import RunState
from ddpquiz.events.run_summary import find_costliest_line
from ddpquiz.plural import plural
from ddpquiz.ranks import device, script
from ddpquiz.ranks.event_reader import EventReader
from ddpquiz.ranks.forks import STACK_SIGNAL
from ddpquiz.ranks.inside import BETWEEN
from ddpquiz.ranks.launch import server
from ddpquiz.ranks.messages import PipeData, RankExited
from ddpquiz.ranks.processes import Processes
from ddpquiz.ranks.request import Request

MOST_RANKS = 64
_MOST_NOTES = 3  # mismatches that are noted at the end of a run that went well
FAILED, HUNG = "failed", "hung"  # why we end a run ourselves
_STRAGGLES = 0.2  # of the other ranks' time that a demo lets a line cost on purpose
_MOVING = 1.0  # seconds; ranks that recorded something within them are not stuck


_FRESH = (
    "{loop} goes through a set, whose order may differ between interpreters. So each rank starts in one of its own, "
    "as under torchrun."
)


def _set_loop(path: Path) -> str:
    """The first line that iterates over a set; "" if no line does, or if all ranks hash alike."""
    if os.environ.get("PYTHONHASHSEED", "random") != "random":
        return ""
    return next((format_place(file, line) for file, line in find_set_loops(path)), "")


class Run:
    """N ranks of a script. Call `read` until `over`; the last event is an End, and then no process is left.

    `seen` is the state of the run by the events that have been read.
    """

    processes_class: type[Processes] = Processes

    def __init__(self, request: Request) -> None:
        read = script.read(Path(request.script).absolute())
        notes = read.notes
        if request.diagnose and not request.fresh and not request.restarts and (loop := _set_loop(read.path)):
            request = replace(request, fresh=True)
            notes = (*notes, _FRESH.format(loop=loop))
        connection = server()
        machine = connection.machine
        self.ranks = device.default_ranks(machine) if request.ranks is None else request.ranks
        if not 1 <= self.ranks <= MOST_RANKS:
            raise UserError(f"--nproc is {self.ranks}, but one machine runs 1 to {MOST_RANKS} ranks.")
        chosen = device.choose(request.device, self.ranks, machine, may_share=request.may_share_gpus)
        self.claims, restarts = read.claims, request.restarts
        self.began = Began(
            str(request.script), tuple(request.args), self.ranks, chosen.kind, chosen.backend,
            " · ".join([chosen.reason, *([f"up to {plural(restarts, 'restart')}"] if restarts else [])]),
            read.claims, read.title, restarts=restarts, module=request.module, highlighted=read.highlighted,
        )  # fmt: skip
        self.seen = RunState()
        self.over = False
        self.printed = 0  # bytes that the ranks wrote to standard output and standard error
        self.listeners: list[Callable[[Event], None]] = []
        self._processes = self.processes_class(request, connection, chosen, self.ranks, read)
        self._first: list[Event] = [self.began, *(Note(0.0, 0, note) for note in notes)]
        self._reader = EventReader(sys.__stdout__.encoding if sys.__stdout__ else "utf-8")  # ours is theirs
        self._watchdog = Watchdog(
            self._processes, request.timeout, str(request.subject or read.path), diagnose=request.diagnose
        )
        self._diagnoses, self._is_fresh = request.diagnose, request.fresh
        self._replicas = Replicas(str(request.script))
        self._checks_replicas = request.check_replicas
        self._last_look: Standstill | None = None  # where ranks stood when the user ended the run
        self._failed_at: float | None = None
        self._stopped = ""  # why we ended it

    def read(self, timeout: float) -> list[Event]:
        """Wait up to `timeout` seconds and return what has happened; listeners get each event too."""
        events = self._read(timeout)
        for event in events:
            for listener in self.listeners:
                listener(event)
        return events

    def _read(self, timeout: float) -> list[Event]:
        events, self._first = self._first, []
        if events or self.over:
            self._note(events)
            return events
        for message in self._processes.read(timeout):
            events += self._events_of(message)
        events += self._reader.overdue(math.inf if self._processes.over else self._processes.now())
        events.sort(key=when)  # those of one rank are in order; among ranks, a cause must precede its effects
        self._note(events)
        events += self._add([note for event in events if (note := self._replicas.add(event))])
        events += self._add(self._watch())
        if self._processes.over:
            end = self._end()
            events += self._add([*(self._remarks(end.time) if end.ok else []), *self._conclusion(end.time), end])
            self.over = True
        return events

    def _add(self, events: list[Event]) -> list[Event]:
        for event in events:
            self.seen.add(event)
        return events

    def events(self) -> Iterator[Event]:
        while not self.over:
            yield from self.read(0.1)

    def now(self) -> float:
        return self._processes.now()

    def cpu_seconds(self) -> float:
        """The processor time that the ranks have used; see Processes."""
        return sum(self._processes.cpu_seconds().values())

    def stop(self, why: str) -> None:
        """End every process; the remaining events still come, and the last one says `why`."""
        if self._stopped:
            return
        self._stopped = why
        if why in (FAILED, HUNG) or not self._diagnoses or self.now() - self._watchdog.moved_at < _MOVING:
            self._processes.stop()
        else:
            self._watchdog.stop()  # first ask where they stand

    def close(self, why: str) -> list[Event]:
        """End a run that is not over, for the reason `why`, and return its remaining events."""
        if self.over:
            return []
        self.stop(why)
        return [*self.events()]

    def _events_of(self, message: PipeData | RankExited) -> list[Event]:
        now = self._processes.now()
        match message:
            case RankExited(rank=rank, status=status):
                exited = Exited(
                    now, rank, status, self._watchdog.crash_stack(rank), self._ran_out(status), bool(self._stopped)
                )
                return [*self._reader.rest(rank), exited]
            case PipeData(pipe="stack"):
                self._watchdog.add_stack(message.rank, message.data.decode(errors="replace"))
                return []
            case PipeData():
                self.printed += len(message.data) * (message.pipe != "events")
                return self._reader.read(message, now)

    def _ran_out(self, status: int) -> bool:
        return status == -9 and self._processes.memory_ran_out()

    def _note(self, events: list[Event]) -> None:
        now = self._processes.now()
        for event in events:
            self.seen.add(event)
            failed = isinstance(event, Raised) or (isinstance(event, Exited) and event.status and not self._stopped)
            if failed and self._failed_at is None:
                self._failed_at = now
                self._watchdog.request_stacks()
        if any(not isinstance(event, Alive) for event in events):  # a rank that is busy at a line may hang
            self._watchdog.moved(now)

    def _watch(self) -> list[Event]:
        """End the run soon after a failure, or when nothing moves; return the hang, if it is one."""
        now = self._processes.now()
        if self._processes.over:
            return []
        if self._stopped:
            if self._last_look is None and self._watchdog.stopping and (found := self._watchdog.look(now, self.seen)):
                return self._stand_still(found)
            return []
        if not self._processes.pids or self._is_starting():  # torch, or what the script needs, is still imported
            self._watchdog.moved(now)
        elif self._failed_at is not None and not self.began.restarts:  # with restarts, torchrun's agent ends it
            if now - self._failed_at > GRACE and self._watchdog.has_stacks(now):
                self.stop(FAILED)
                return self._hang_that_failed()
        elif found := self._watchdog.look(now, self.seen):
            return self._stand_still(found)
        return []

    def _is_starting(self) -> bool:
        """Whether a rank in an interpreter of its own has not come to its script yet."""
        return self._is_fresh and bool({*self.seen.all_ranks} - self.seen.pids.keys() - self.seen.exited.keys())

    def _stand_still(self, found: Standstill) -> list[Event]:
        """Do what a standstill asks for: end the run, or say who waits for whom."""
        now = self.now()
        match found.reason:
            case "stop":
                self._last_look = found
                self._processes.stop()
                return []
            case "stall":
                return [note_standstill(self.seen, now, found.since, found.positions)]
        self.stop(HUNG)
        return [Hung(now, round(now - found.since, 1), found.positions)]

    def _hang_that_failed(self) -> list[Event]:
        """The hang that made the ranks fail by their group's own time-out, if there was one."""
        hung = hang_behind_timeouts(self.now(), self._watchdog.positions(self.seen), self.seen)
        return [hung] if hung else []

    def _end(self) -> End:
        claims = [verdict for _, verdict, _ in self.seen.verdicts()]
        rank, why, advice, concept = self._cause(is_broken="broken" in claims)
        return End(self.now(), not why, claims.count("proven"), len(self.claims), rank, why, advice, concept)

    def _cause(self, *, is_broken: bool) -> tuple[int | None, str, str, str]:
        """Which rank failed, why, what to do about it, and which concept explains it; nothing if the run went well."""
        if self._stopped not in ("", FAILED, HUNG):
            stacks = self._last_look.positions if self._last_look else ()
            return None, self._stopped, advise_stopped(self.seen, stacks) if stacks else "", ""
        if has_failed(self.seen):
            verdict = diagnose(self.seen)
            return verdict.rank, verdict.whole, verdict.advice, verdict.concept
        return None, "A claim is broken." if is_broken else "", "", ""

    def _remarks(self, now: float) -> list[Note]:
        """What is worth a note although the run went well: a demo shows its fault on purpose."""
        is_demo = self.claims and not self._diagnoses
        if is_demo and (verdict := diagnose(self.seen)).fault != "none":
            return [Note(now, (*verdict.culprits, 0)[0], f"Diagnosis: {verdict.whole}")]
        costliest = find_costliest_line(self.seen.timeline, now) if is_demo else None
        if costliest and costliest.rank is not None and costliest.share > _STRAGGLES:
            return [Note(now, costliest.rank, f"Diagnosis: {costliest}")]
        notes = [Note(now, each.sides[0].ranks[0], str(each)) for each in self._mismatches()[:_MOST_NOTES]]
        if self._diagnoses and (swallowed := tell_swallowed_failure(self.seen)):
            notes.append(Note(now, 0, swallowed))
        return notes

    def _conclusion(self, now: float) -> list[Note]:
        """What --check-replicas has found, so that its silence is not taken for a result."""
        text = self._replicas.conclusion() if self._checks_replicas else ""
        return [Note(now, 0, text)] if text else []

    def _mismatches(self) -> list[Mismatch]:
        """The operations that ranks called in ways that do not fit together."""
        return [each for each in self.seen.timeline.mismatches if each.kind != "missing"]


# Whether the ranks hang, and where each of them stands.

ANSWER = 0.3  # seconds in which ranks write their stacks
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
        self._latest = self.processes.now() + _LATEST
        self.processes.signal(STACK_SIGNAL)

    def has_stacks(self, now: float) -> bool:
        """Whether every rank that lives and is not stopped has written its stack, or will not any more."""
        missing = (rank for rank in self.processes.living_ranks() if rank not in self.stacks)
        return now > self._latest or all(map(self.processes.is_stopped, missing))

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
        if silent and not self._is_computing(now, seen):
            return "hang", self.moved_at
        if self.diagnose and not self._noticed and now - self._recorded_at > NOTICE:
            return "stall", self._recorded_at
        return None

    def _patience(self, seen: RunState) -> float:
        """Return after how many seconds without movement the ranks hang.

        While all of them are in init_process_group no rank is missing: the network may just be slow.
        """
        joining = all(seen.waits_in(rank) == JOIN for rank in seen.all_ranks)
        return max(self.timeout or 0.0, _JOINING if joining else 0.0)

    def positions(self, seen: RunState) -> tuple[RankStack, ...]:
        """Where every rank stands, by the stacks that they have written."""
        return tuple(self._position(rank, seen) for rank in seen.all_ranks)

    def _position(self, rank: int, seen: RunState) -> RankStack:
        stack = self.stacks.get(rank, "")
        frames = list(itertools.takewhile(_is_of_script, frames_in(stack)))
        inside = next((at for at, frame in enumerate(frames) if frame[0] == self.script), len(frames))
        file, line, _ = frames[inside] if inside < len(frames) else frames[0] if frames else ("", 0, "")
        waits_in = seen.blocked_in(rank) or seen.waits_in(rank)
        if not waits_in and any(_COMMUNICATION.search(frame[0]) for frame in frames[:inside]):
            waits_in = "wait"  # for an operation that has ended already, or for the store
        return RankStack(rank, waits_in, file, line, stack)

    def _is_computing(self, now: float, seen: RunState) -> bool:
        """Whether silent ranks use a processor, but for those that wait for a GPU: torch spins meanwhile."""
        on_gpu = seen.began is not None and seen.began.device == "cuda"
        used, before = self.processes.cpu_seconds(), self._cpu
        spent = sum(
            seconds - before.get(rank, 0.0) for rank, seconds in used.items() if not (on_gpu and seen.waits_in(rank))
        )
        busy = spent > max(_TICK, _IDLE * (now - self._cpu_at))
        self._cpu, self._cpu_at = used, now
        if busy:
            self.moved_at = now - (self.timeout or 0) / 2  # look again in half the time
        return busy


def _is_of_script(frame: Frame) -> bool:
    return frame.name not in _RUN_SCRIPT or not _WORKER.search(frame.file)
