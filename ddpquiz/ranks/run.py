"""One run, from its first event to its last process: what the ranks say, whether they hang, who failed first."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ddpquiz.analysis import root_cause
from ddpquiz.analysis.event_codec import LineBuffer, decode, labelled
from ddpquiz.analysis.events import (
    Began,
    End,
    Event,
    Exited,
    Hung,
    Note,
    Output,
    Raised,
    Started,
    when,
)
from ddpquiz.analysis.run_state import RunState
from ddpquiz.errors import UserError
from ddpquiz.ranks import device, script
from ddpquiz.ranks.launch import server
from ddpquiz.ranks.output_order import PATIENCE, OutputOrder
from ddpquiz.ranks.processes import Processes
from ddpquiz.ranks.watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ddpquiz.analysis.mismatch import Mismatch
    from ddpquiz.ranks.launch import Request

MOST_RANKS = 64
MOST_NOTES = 3  # operations that did not fit together, of which the end tells
WROTE = re.compile(rb"(stdout|stderr) (\S+) (\d+)")  # how a rank tells of a write
FAILED, HUNG = "failed", "hung"  # why we end a run ourselves, when nobody asked for it


class Run:
    """N ranks of a script. Call `read` until `over`; the last event is an End, and then no process is left.

    `seen` is what has been read so far.
    """

    def __init__(self, request: Request) -> None:
        asked = script.read(Path(request.script).absolute())
        serving = server()
        machine = serving.machine
        self.ranks = device.default_ranks(machine) if request.ranks is None else request.ranks
        if not 1 <= self.ranks <= MOST_RANKS:
            raise UserError(f"--nproc is {self.ranks}, but one machine runs 1 to {MOST_RANKS} ranks.")
        chosen = device.choose(request.device, self.ranks, machine)
        cluster = request.cluster
        here = cluster.here(self.ranks) if cluster else range(self.ranks)
        self.claims = asked.claims
        self.began = Began(
            str(request.script),
            tuple(request.args),
            self.ranks * (cluster.nodes if cluster else 1),
            chosen.kind,
            chosen.backend,
            f"{chosen.reason} · {cluster.reason()}" if cluster else chosen.reason,
            asked.claims,
            asked.title,
            module=request.module,
            here=tuple(here) if cluster and cluster.nodes > 1 else (),
            restarts=cluster.restarts if cluster else 0,
            look=asked.look,
        )
        self.seen = RunState()
        self.over = False
        self.listeners: list[Callable[[Event], None]] = []
        self._processes = Processes(request, serving, chosen, here, asked)
        self._unsaid: list[Event] = [self.began, *(Note(0.0, 0, note) for note in asked.notes)]
        self._lines: dict[int, LineBuffer] = {}
        self._written: dict[tuple[int, str], OutputOrder] = {}
        self._watchdog = Watchdog(self._processes, request.timeout, str(asked.path))
        self._failed_at: float | None = None
        self._notes: set[str] = set()
        self._stopped = ""  # why we ended it

    def read(self, timeout: float) -> list[Event]:
        """Return what happened, waiting up to `timeout` seconds for something to happen; listeners hear it too."""
        events = self._read(timeout)
        for event in events:
            for listener in self.listeners:
                listener(event)
        return events

    def _read(self, timeout: float) -> list[Event]:
        events, self._unsaid = self._unsaid, []
        if events or self.over:
            self._note(events)
            return events
        for rank, carries, data in self._processes.read(timeout):
            events += self._understand(rank, carries, data)
        events += self._overdue()
        events.sort(key=when)  # of one rank they are in order; of several, a cause shall come before what it causes
        self._note(events)
        events += self._add(self._watch())
        if self._processes.over:
            end = self._end()
            misfits = self._misfits()[:MOST_NOTES] if end.ok else []
            events += self._add([*(Note(end.time, each.sides[0].ranks[0], str(each)) for each in misfits), end])
            self.over = True
        return events

    def _add(self, events: list[Event]) -> list[Event]:
        for event in events:
            self.seen.add(event)
        return events

    def events(self) -> Iterator[Event]:
        """Yield every event until the run is over."""
        while not self.over:
            yield from self.read(0.1)

    def now(self) -> float:
        """Return the seconds since the run was asked for."""
        return self._processes.now()

    def stop(self, why: str) -> None:
        """End every process; the events that are left still come, and the last one says `why`."""
        if not self._stopped:
            self._stopped = why
            self._processes.stop()

    def _understand(self, rank: int, carries: str, data: bytes) -> list[Event]:
        now = self._processes.now()
        match carries:
            case "exit":
                stack, memory = self._watchdog.last_words(rank), int(data) == -9 and self._processes.memory_ran_out()
                gone = Exited(now, rank, int(data), stack, memory, stopped=bool(self._stopped))
                return [*self._outputs(rank, math.inf), gone]
            case "events":  # a killed rank may stop mid-line
                lines = self._lines.setdefault(rank, LineBuffer())
                return [event for line in lines.feed(data) for event in self._told(rank, line)]
            case "stack":
                self._watchdog.hear(rank, data.decode(errors="replace"))
                return []
        self._written.setdefault((rank, carries), OutputOrder()).take(data, now)
        return self._outputs(rank)

    def _outputs(self, rank: int, before: float = 0.0) -> list[Event]:
        """Return the lines of a rank that it told of, and any other ones that were read before a time."""
        outputs = list[Event]()
        for stream in ("stdout", "stderr"):
            written = self._written.get((rank, stream))
            for line, time in written.lines(before) if written else ():
                text = _as_shown(line.decode(errors="replace"))
                label = labelled(text) if stream == "stdout" else None
                outputs.append(Output(time, rank, stream, text, *(label or ())))
        return outputs

    def _last_lines(self, rank: int) -> list[Event]:
        """Return the lines that are left of a rank's process, also one that it did not end."""
        for stream in ("stdout", "stderr"):
            if written := self._written.get((rank, stream)):
                written.take(b"", self._processes.now())
        return self._outputs(rank, math.inf)

    def _overdue(self) -> list[Event]:
        """Return the lines that no rank has told of for a while."""
        before = math.inf if self._processes.over else self._processes.now() - PATIENCE
        return [line for rank in {rank for rank, _ in self._written} for line in self._outputs(rank, before)]

    def _told(self, rank: int, line: bytes) -> Iterator[Event]:
        """Understand a line that a rank told; one that was killed may have stopped in the middle of it."""
        if line.endswith(b"}"):
            event = decode(line)
            if isinstance(event, Started) and event.restart:  # what the process before it left of a line is all of it
                yield from self._last_lines(rank)
            yield from self._outputs(rank, when(event))
            if not self._said_again(event):
                yield event
        elif found := WROTE.fullmatch(line):
            stream, time, count = found.groups()
            self._written.setdefault((rank, stream.decode()), OutputOrder()).tell(float(time), int(count))
            yield from self._outputs(rank)

    def _said_again(self, event: Event) -> bool:
        """Whether another rank has had the same to say."""
        if not isinstance(event, Note):
            return False
        again = event.text in self._notes
        self._notes.add(event.text)
        return again

    def _note(self, events: list[Event]) -> None:
        now = self._processes.now()
        for event in events:
            self.seen.add(event)
            failed = isinstance(event, Raised) or (isinstance(event, Exited) and event.status and not self._stopped)
            if failed and self._failed_at is None:
                self._failed_at = now
                self._watchdog.ask()
        if events:
            self._watchdog.moved(now)

    def _watch(self) -> list[Event]:
        """End the run soon after a failure, or when nothing moves; tell of a hang once every rank said where it is."""
        now = self._processes.now()
        if self._stopped or self._processes.over:
            return []
        if not self._processes.pids:  # the server is still importing what the script needs
            self._watchdog.moved(now)
        elif self._failed_at is not None and not self.began.restarts:  # or torchrun's agent does it
            if now - self._failed_at > root_cause.GRACE and self._watchdog.has_heard(now):
                self.stop(FAILED)
                return self._gave_up()
        elif standing := self._watchdog.standing_still(now, self.seen):
            self.stop(HUNG)
            return [Hung(self.now(), round(now - self._watchdog.moved_at, 1), standing)]
        return []

    def _gave_up(self) -> list[Event]:
        """Return the hang that made the ranks fail, if it was one."""
        hung = root_cause.hang_behind_timeouts(self.now(), self._watchdog.standing(self.seen), self.seen)
        return [hung] if hung else []

    def _end(self) -> End:
        verdicts = [verdict for _, verdict, _ in self.seen.verdicts()]
        found = self._cause(self._misfits())
        proven = verdicts.count("proven")
        return End(self.now(), not found.why, proven, len(self.claims), found.rank, found.why, found.mend)

    def _cause(self, unlike: Sequence[Mismatch]) -> root_cause.Cause:
        """Return why the run failed, if it did."""
        if self._stopped not in ("", FAILED, HUNG):
            return root_cause.Cause(why=self._stopped)
        return root_cause.find(self.seen, unlike)

    def _misfits(self) -> list[Mismatch]:
        """Return the operations for which the ranks asked in ways that do not fit."""
        return [each for each in self.seen.timeline.mismatches if each.kind != "missing"]


def _as_shown(line: str) -> str:
    """Return a line as a terminal would show it in the end: a progress bar writes it again and again."""
    return line.rstrip("\r").rpartition("\r")[2]
