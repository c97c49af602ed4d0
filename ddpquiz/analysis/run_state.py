"""What a run has shown so far, put together from its events: pure, so it serves a live run and a saved one alike."""

from __future__ import annotations

import linecache
import pickle
import re
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from ddpquiz.analysis.events import (
    Began,
    Claimed,
    ClaimText,
    End,
    Ended,
    Event,
    Exited,
    Hung,
    Issued,
    Joining,
    Nodes,
    Note,
    Output,
    Raised,
    Result,
    Started,
    Waiting,
    when,
)
from ddpquiz.analysis.timeline import Timeline

KEPT = 2000  # lines of each rank, and numbers of each label, that are kept
_TORCH_WARNING = re.compile(r"(\[rank\d+\]:)?\[[IW]\d{4} [\d:.]+ \S+:\d+\] ")  # of torch's C++ code: only for the log
LABELS = 200  # labels that are kept; a script that counts in its labels makes a new one a line


@dataclass
class RunState:
    """Rows of labelled values with a column a rank, claims, and where each rank is."""

    began: Began | None = None
    rows: dict[str, dict[int, list[str]]] = field(default_factory=dict)  # label -> rank -> its values, oldest first
    said_at: dict[str, dict[int, float]] = field(default_factory=dict)  # when the last of those values came
    lines: list[Output] = field(default_factory=list)  # what has no label
    log: dict[int, deque[Output]] = field(default_factory=dict)  # rank -> all its lines
    claims: dict[int, dict[int, bool]] = field(default_factory=dict)  # line -> rank -> whether it held
    waits: dict[int, dict[int, str]] = field(default_factory=dict)  # rank -> open operations, by number
    beside: set[tuple[int, int]] = field(
        default_factory=set
    )  # of these, by rank and number, what runs beside the script
    raised: dict[int, Raised] = field(default_factory=dict)
    exited: dict[int, Exited] = field(default_factory=dict)
    brought: dict[int, Issued] = field(default_factory=dict)  # rank -> the last operation that it called
    got: dict[int, tuple[str, ...]] = field(default_factory=dict)  # rank -> what that operation left there
    joined: set[int] = field(default_factory=set)  # ranks that have formed a process group
    timeline: Timeline = field(default_factory=partial(Timeline, text=linecache.getline))
    places: dict[int, tuple[str, int]] = field(default_factory=dict)  # rank -> file and line it was last seen at
    pids: dict[int, int] = field(default_factory=dict)  # rank -> its process, the last one
    restart: int = 0  # how often the ranks were started again
    nodes: Nodes | None = None
    notes: list[str] = field(default_factory=list)
    time: float = 0.0  # of the last event
    hung: Hung | None = None
    end: End | None = None

    def add(self, event: Event) -> None:
        """Take in one event."""
        self.timeline.add(event)
        self.time = max(self.time, when(event))
        match event:
            case Began():
                self.began = event
            case Nodes():
                self.nodes = event
            case Started():
                self._start(event)
            case Output():
                self._hear(event)
            case Claimed(line=line, rank=rank, held=held):
                self.places[rank] = self._script, line
                ranks = self.claims.setdefault(line, {})
                ranks[rank] = ranks.get(rank, True) and held
            case Issued(rank=rank, number=number, op=op):
                self.waits.setdefault(rank, {})[number] = op
                if (event.asynchronous or event.bucket is not None) and not self._on_gpu:
                    self.beside.add((rank, number))
                self.brought[rank] = event
                self.places[rank] = event.file, event.line
                self.got.pop(rank, None)
            case Result(rank=rank, number=number, after=after):
                if rank in self.brought and self.brought[rank].number == number:
                    self.got[rank] = after
            case Joining(rank=rank, done=done):
                self.places[rank] = self._script, event.line
                self.waits.setdefault(rank, {}).update({} if done else {0: "init_process_group"})
                if done:
                    self.waits[rank].pop(0, None)
                    self.joined.add(rank)
            case Ended(rank=rank, number=number):
                self.waits.setdefault(rank, {}).pop(number, None)
                self.beside.discard((rank, number))
            case Waiting(rank=rank, number=number):
                self.beside.discard((rank, number))
            case Raised(rank=rank):
                self.raised[rank] = event
            case Exited(rank=rank):
                self.exited[rank] = event
                self._leave(rank)
            case Note(text=text):
                if text not in self.notes:  # every rank has the same to say
                    self.notes.append(text)
            case Hung():
                self.hung = event
            case End():
                self.end = event

    def _start(self, event: Started) -> None:
        """Forget how a rank ended before, and what it claimed: it begins anew."""
        self.pids[event.rank] = event.pid
        self.restart = max(self.restart, event.restart)
        self._leave(event.rank)
        self.joined.discard(event.rank)
        for known in (self.exited, self.raised, self.brought, self.got, *self.claims.values()):
            known.pop(event.rank, None)  # type: ignore[attr-defined]

    def _leave(self, rank: int) -> None:
        """Forget what a rank waited for."""
        self.beside -= {(rank, number) for number in self.waits.pop(rank, {})}

    def _hear(self, line: Output) -> None:
        self.log.setdefault(line.rank, deque(maxlen=KEPT)).append(line)
        if line.label is None:
            if not _TORCH_WARNING.match(line.text):
                self.lines.append(line)
                del self.lines[:-KEPT]
            return
        values = self.rows.setdefault(line.label, {}).setdefault(line.rank, [])
        values.append(line.value or "")
        del values[:-KEPT]
        self.said_at.setdefault(line.label, {})[line.rank] = line.time
        if len(self.rows) > LABELS:
            oldest = min(self.rows, key=lambda label: max(self.said_at[label].values()))
            del self.rows[oldest], self.said_at[oldest]

    def copy(self) -> RunState:
        """Return what was seen so far, to be kept as it is."""
        copied: RunState = pickle.loads(pickle.dumps(self))  # noqa: S301  # our own; ten times faster than copy.deepcopy
        return copied

    def changed(self, label: str, rank: int, since: float) -> bool:
        """Whether a rank has said another value of a label after `since`."""
        values = self.rows[label].get(rank, [])
        return self.said_at[label].get(rank, 0.0) > since and values[-1:] != values[-2:-1]

    @property
    def _on_gpu(self) -> bool:
        """Whether a GPU does what the script has called: nothing tells then when the script begins to wait for it."""
        return self.began is not None and self.began.device == "cuda"

    @property
    def _script(self) -> str:
        return self.began.script if self.began else ""

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return self.began.ranks if self.began else 0

    @property
    def here(self) -> tuple[int, ...]:
        """The ranks that run on this machine."""
        return (self.began.here if self.began else ()) or tuple(range(self.ranks))

    def in_script(self, rank: int) -> int | None:
        """Return the line of the script where a rank was last seen; None when that was elsewhere."""
        file, line = self.places.get(rank, ("", 0))
        same = file == self._script or (Path(file).is_absolute() and file.endswith(f"/{Path(self._script).name}"))
        return line if same and line else None

    def verdicts(self) -> list[tuple[ClaimText, Literal["proven", "broken", "not reached"], list[int]]]:
        """Return each claim with its verdict and the ranks that speak for it."""
        found: list[tuple[ClaimText, Literal["proven", "broken", "not reached"], list[int]]] = []
        for claim in self.began.claims if self.began else ():
            held = self.claims.get(claim.line, {})
            broken = sorted(rank for rank, good in held.items() if not good)
            if broken:
                found.append((claim, "broken", broken))
            elif held:
                found.append((claim, "proven", sorted(held)))
            else:
                found.append((claim, "not reached", []))
        return found

    def waits_in(self, rank: int) -> str:
        """Return the communication that a rank is in, or nothing."""
        waits = self.waits.get(rank)
        return waits[min(waits)] if waits else ""

    def held_in(self, rank: int) -> str:
        """Return the communication that a rank is in and that does not run beside its script, or nothing."""
        waits = self.waits.get(rank, {})
        return next((waits[number] for number in sorted(waits) if (rank, number) not in self.beside), "")

    def doing(self, rank: int) -> str:
        """Say where a rank is: waiting in an operation, computing, or gone."""
        if self.began and self.began.here and rank not in self.pids:
            return "not begun"  # the other machines are waited for
        if rank in self.exited:
            return "done" if self.exited[rank].status == 0 else "failed"
        waits_in = self.held_in(rank) or "computing"
        return "joining" if waits_in == "init_process_group" else waits_in  # short enough for a column
