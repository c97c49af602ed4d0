"""One run, from its first event to its last process: what ranks report, and why the run failed."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from ddpquiz.diagnosis.event_diagnosis import advise_stopped, diagnose, note_standstill, tell_swallowed_failure
from ddpquiz.diagnosis.rank_status import GRACE
from ddpquiz.diagnosis.root_cause import hang_behind_timeouts, has_failed
from ddpquiz.diagnosis.set_order import find_set_loops
from ddpquiz.errors import UserError
from ddpquiz.events.costliest_line import find_costliest_line
from ddpquiz.events.event import Alive, Began, End, Event, Exited, Hung, Note, Raised, when
from ddpquiz.events.formatting import format_place
from ddpquiz.events.mismatch import Mismatch
from ddpquiz.events.replicas import Replicas
from ddpquiz.events.run_state import RunState
from ddpquiz.plural import plural
from ddpquiz.ranks import device, script
from ddpquiz.ranks.event_reader import EventReader
from ddpquiz.ranks.messages import PipeData, RankExited
from ddpquiz.ranks.processes import Processes
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.server_connection import server
from ddpquiz.ranks.watchdog import Standstill, Watchdog

MOST_RANKS = 64
_MOST_NOTES = 3  # mismatches that are noted at the end of a run that went well
FAILED, HUNG = "failed", "hung"  # why we end a run ourselves
_STRAGGLES = 0.4  # of the other ranks' time; a busy machine alone costs up to a third
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
        chosen = device.choose_device(request.device, self.ranks, machine, may_share=request.may_share_gpus)
        restarts = request.restarts
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
        """The hang that made the ranks fail by their group's own timeout, if there was one."""
        hung = hang_behind_timeouts(self.now(), self._watchdog.positions(self.seen), self.seen)
        return [hung] if hung else []

    def _end(self) -> End:
        claims = [verdict for _, verdict, _ in self.seen.verdicts()]
        rank, why, advice, concept = self._cause(is_broken="broken" in claims)
        return End(self.now(), not why, claims.count("proven"), len(self.began.claims), rank, why, advice, concept)

    def _cause(self, *, is_broken: bool) -> tuple[int | None, str, str, str]:
        """Which rank failed, why, what to do about it, and which concept explains it; nothing if the run went well."""
        if self._stopped not in ("", FAILED, HUNG):
            stacks = self._last_look.positions if self._last_look else ()
            return None, self._stopped, advise_stopped(self.seen, stacks), ""
        if has_failed(self.seen):
            verdict = diagnose(self.seen)
            return verdict.rank, verdict.whole, verdict.advice, verdict.concept
        return None, "A claim is broken." if is_broken else "", "", ""

    def _remarks(self, now: float) -> list[Note]:
        """What is worth a note although the run went well.

        A script with claims, as demos and those of labs have, may show a fault on purpose; `ddpquiz run` tells such
        faults while the script runs.
        """
        may_show_fault = self.began.claims and not self._diagnoses
        if may_show_fault and (verdict := diagnose(self.seen)).fault != "none":
            return [Note(now, (*verdict.culprits, 0)[0], f"Diagnosis: {verdict.whole}")]
        costliest = find_costliest_line(self.seen.timeline, now) if may_show_fault else None
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
