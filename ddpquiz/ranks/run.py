"""One run, from its first event to its last process: what the ranks say, whether they hang, who failed first."""

from __future__ import annotations

import ast
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from ddpquiz.errors import UserError
from ddpquiz.ranks import claims, device
from ddpquiz.ranks.events import (
    Began,
    End,
    Event,
    Exited,
    Hung,
    Lines,
    Output,
    Raised,
    Standing,
    decode,
    labelled,
)
from ddpquiz.ranks.launch import Processes, Request, server
from ddpquiz.ranks.seen import Seen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GRACE = 0.3  # seconds after the first failure in which the other ranks may still say what they saw
MOST_RANKS = 64
COMMUNICATION = re.compile(r"torch.distributed.|ddpquiz.ranks.recorder\.py$")  # files whose code waits for other ranks
# What a rank raises because another one is gone: never the cause.
CONSEQUENCE = re.compile(
    r"Connection (closed|reset|was likely closed)|Broken pipe|Timed out waiting|timeout caused pair closure|"
    r"wait timeout after|Socket Timeout|Connection refused|failed to pass monitoredBarrier|recvValue failed|"
    r"sendBytes failed"
)


class Run:
    """N ranks of a script. Call `read` until `over`; the last event is an End, and then no process is left.

    `seen` is what has been read so far.
    """

    def __init__(self, request: Request) -> None:
        source = read_script(request.script)
        serving = server()
        machine = serving.machine
        self.ranks = device.default_ranks(machine) if request.ranks is None else request.ranks
        if not 1 <= self.ranks <= MOST_RANKS:
            raise UserError(f"--nproc is {self.ranks}, but one machine runs 1 to {MOST_RANKS} ranks.")
        chosen = device.choose(request.device, self.ranks, machine)
        tree = ast.parse(source)
        self.claims = claims.find(tree)
        self.began = Began(
            str(request.script),
            tuple(request.args),
            self.ranks,
            chosen.kind,
            chosen.backend,
            chosen.reason,
            self.claims,
            (ast.get_docstring(tree) or "").partition("\n")[0],
        )
        self.seen = Seen()
        self.over = False
        self.listeners: list[Callable[[Event], None]] = []
        self._script = str(request.script)
        self._timeout = request.timeout
        self._processes = Processes(request, serving, chosen, self.ranks, source, self.claims)
        self._unsaid: list[Event] = [self.began]
        self._lines: dict[tuple[int, str], Lines] = {}
        self._stacks = [""] * self.ranks
        self._moved, self._cpu, self._cpu_at = 0.0, 0.0, 0.0
        self._failed_at: float | None = None
        self._asked_stacks_at: float | None = None
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
        self._note(events)
        ours = self._watch()
        if self._processes.over:
            ours.append(self._end())
            self.over = True
        for event in ours:
            self.seen.add(event)
        return events + ours

    def events(self) -> Iterator[Event]:
        """Yield every event until the run is over."""
        while not self.over:
            yield from self.read(0.1)

    def stop(self, why: str) -> None:
        """End every process; the events that are left still come, and the last one says `why`."""
        if not self._stopped:
            self._stopped = why
            self._processes.stop()

    def _understand(self, rank: int, carries: str, data: bytes) -> list[Event]:
        lines = self._lines.setdefault((rank, carries), Lines())
        now = self._processes.now()
        match carries:
            case "exit":
                return [Exited(now, rank, int(data))]
            case "events":
                return [
                    decode(line) for line in lines.feed(data) if line.endswith(b"}")
                ]  # a killed rank may stop mid-line
            case "stack":
                self._stacks[rank] += data.decode(errors="replace")
                return []
        said = [line.decode(errors="replace").rstrip("\r") for line in lines.feed(data)]
        labels = [labelled(text) if carries == "stdout" else None for text in said]
        return [Output(now, rank, carries, text, *(label or ())) for text, label in zip(said, labels, strict=True)]

    def _note(self, events: list[Event]) -> None:
        for event in events:
            self.seen.add(event)
            self._moved = max(self._moved, self._processes.now())
            failed = isinstance(event, Raised) or (isinstance(event, Exited) and event.status and not self._stopped)
            if failed and self._failed_at is None:
                self._failed_at = self._moved

    def _watch(self) -> list[Event]:
        """End the run soon after a failure, or when nothing moves; tell of a hang once every rank said where it is."""
        now = self._processes.now()
        if self._stopped or self._processes.over:
            return []
        if not self._processes.pids:  # the server is still importing what the script needs
            self._moved = now
            return []
        if self._failed_at is not None:
            if now - self._failed_at > GRACE:
                self.stop("failed")
            return []
        if self._asked_stacks_at is not None:
            return self._tell_hang(now) if now - self._asked_stacks_at >= GRACE else []
        if self._timeout is not None and now - self._moved > self._timeout and not self._computing(now):
            self._asked_stacks_at = now
            self._stacks = [""] * self.ranks
            self._processes.signal(signal.SIGUSR1)
        return []

    def _computing(self, now: float) -> bool:
        """Whether the silent ranks use a processor."""
        used, before = self._processes.cpu_seconds(), self._cpu
        busy = used - before > max(0.015, 0.005 * (now - self._cpu_at))  # a clock tick is 0.01 s
        self._cpu, self._cpu_at = used, now
        if busy:
            self._moved = now - (self._timeout or 0) / 2  # look again in half the time
        return busy

    def _tell_hang(self, now: float) -> list[Event]:
        """End the run now that every rank has said where it stands, unless none of them communicates."""
        asked, self._asked_stacks_at = self._asked_stacks_at or 0.0, None
        standing = tuple(self._standing(rank) for rank in range(self.ranks))
        if self._moved > asked or not any(rank.waits_in for rank in standing):
            self._moved = now
            return []
        self.stop("hung")
        return [Hung(now, round(now - self._moved, 1), standing)]

    def _standing(self, rank: int) -> Standing:
        stack = self._stacks[rank]
        frames = re.findall(r'File "(.+?)", line (\d+)', stack)
        inside = next((at for at, frame in enumerate(frames) if frame[0] == self._script), len(frames))
        file, line = frames[inside] if inside < len(frames) else frames[0] if frames else ("", "0")
        waits_in = self.seen.waits_in(rank)
        if not waits_in and any(COMMUNICATION.search(frame[0]) for frame in frames[:inside]):
            waits_in = "wait"  # for an operation that has ended already, or for the store
        return Standing(rank, waits_in, file, int(line), stack)

    def _end(self) -> End:
        verdicts = [verdict for _, verdict, _ in self.seen.verdicts()]
        rank, why = self._cause()
        if not why and "broken" in verdicts:
            why = "A claim is broken."
        return End(self._processes.now(), not why, verdicts.count("proven"), len(self.claims), rank, why)

    def _cause(self) -> tuple[int | None, str]:
        """Return the rank that failed first, unless only the others' failure made it fail, and what happened to it."""
        if hung := self.seen.hung:
            waiting = _ranks([str(each.rank) for each in hung.ranks if each.waits_in])
            return None, f"Nothing moved for {hung.seconds:g} s: {waiting} in a communication that cannot end."
        if self._stopped not in ("", "failed"):
            return None, self._stopped
        failures = [failure for rank in range(self.ranks) if (failure := self._failure(rank))]
        if not failures:
            return None, ""
        consequence, at, first = min(failures)
        if consequence:
            for rank, exited in sorted(self.seen.exited.items()):
                if exited.status == 0 and exited.time <= at + GRACE:
                    last = self.seen.brought.get(first)
                    where = f" in {last.op}, {Path(last.file).name}:{last.line}" if last else ""
                    waits = f"{_ranks([str(first)])} for it{where}"
                    return rank, f"Rank {rank} had ended (exit status 0) while {waits}."
        return first, self._said(first)

    def _failure(self, rank: int) -> tuple[bool, float, int] | None:
        """Return whether only another rank's failure made this one fail, and when; None when it did not.

        Ranks that we kill ourselves fail too, but later than the one for which we do.
        """
        if raised := self.seen.raised.get(rank):
            return bool(CONSEQUENCE.search(raised.message)), raised.time, rank
        exited = self.seen.exited.get(rank)
        return (False, exited.time, rank) if exited and exited.status else None

    def _said(self, rank: int) -> str:
        """Say how a rank failed, in a sentence."""
        if raised := self.seen.raised.get(rank):
            if raised.error == "SystemExit":
                return raised.message
            return f"Rank {rank} raised {raised.error}: {raised.message}".rstrip(": ")
        status = self.seen.exited[rank].status
        if status == -signal.SIGKILL:
            return f"Rank {rank} was killed by SIGKILL; the kernel does that when memory runs out."
        if status < 0:
            return f"Rank {rank} was ended by {signal.Signals(-status).name}."
        return f"Rank {rank} exited with status {status}."


def _ranks(numbers: list[str]) -> str:
    if len(numbers) == 1:
        return f"rank {numbers[0]} waits"
    return f"ranks {', '.join(numbers)} wait" if numbers else "ranks wait"


def read_script(path: Path) -> str:
    """Return the source of a script, or raise UserError when it cannot be run."""
    try:
        source = path.read_text(encoding="utf-8")
        ast.parse(source)
    except FileNotFoundError:
        raise UserError(f"There is no script {path}.") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a folder; name the script in it that is to run.") from None
    except SyntaxError as wrong:
        raise UserError(f"{path}:{wrong.lineno}: {wrong.msg}; Python cannot read this script.") from None
    except (OSError, ValueError) as wrong:
        raise UserError(f"{path} cannot be read: {wrong}") from None
    return source
