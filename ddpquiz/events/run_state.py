"""What a run has shown so far, put together from its events; it serves a live run and a saved one alike.

Of a run of any length it keeps the last lines, numbers and labels; `printed_values.py` finds them in a line.
"""

from __future__ import annotations

import pickle
import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from ddpquiz.events import event as events
from ddpquiz.events.collective import NewGroupCalls
from ddpquiz.events.event import FORM, JOIN, Output
from ddpquiz.events.printed_values import values_in
from ddpquiz.events.source_text import source_line
from ddpquiz.events.timeline import Timeline

ClaimVerdict = tuple[events.ClaimText, Literal["proven", "broken", "not reached"], list[int]]
LINES = 2000  # lines of each rank, and numbers of each label, that stay in memory
_LABELS = 200  # labels that stay in memory; a script that counts in its labels makes a new one for each line
_NOTES = 200
TORCH_LOG = re.compile(r"(?:\[rank\d+\]:)?\[([IWEF])\d{4} [\d:.]+ \S+:\d+\] ")  # of torch's C++ code, with its level


@dataclass
class RunState:
    """Rows of labeled values with a column for each rank, claims, and where each rank is."""

    began: events.Began | None = None
    rows: dict[str, dict[int, list[str]]] = field(default_factory=dict)  # label -> rank -> its values, oldest first
    printed_at: dict[str, dict[int, float]] = field(default_factory=dict)  # when the last of those values came
    lines: list[events.Output] = field(default_factory=list)  # those without a label
    log: dict[int, deque[events.Output]] = field(default_factory=dict)  # rank -> all its lines
    claims_held: dict[int, dict[int, bool]] = field(default_factory=dict)  # line -> rank -> True if it held
    waits: dict[int, dict[int, str]] = field(default_factory=dict)  # rank -> open operations, by number
    background: set[tuple[int, int]] = field(default_factory=set)  # rank and number of those that do not block it
    raised: dict[int, events.Raised] = field(default_factory=dict)
    exited: dict[int, events.Exited] = field(default_factory=dict)
    finished: dict[int, float] = field(default_factory=dict)  # rank -> when its script came to its end, before it exits
    last_call: dict[int, events.Issued] = field(default_factory=dict)  # rank -> the last operation that it called
    last_result: dict[int, tuple[str, ...]] = field(default_factory=dict)  # rank -> what that operation left there
    joined: set[int] = field(default_factory=set)  # ranks that have formed a process group
    joining: dict[int, events.Joining] = field(default_factory=dict)  # rank -> how it last called init_process_group
    store_waits: dict[int, events.StoreWaiting] = field(default_factory=dict)  # rank -> the keys that it waits for
    missed_keys: dict[int, events.StoreWaiting] = field(default_factory=dict)  # the last ones that a rank gave up
    stands: dict[int, events.Alive] = field(default_factory=dict)  # rank -> where its main thread stands still
    handled: dict[int, events.CalledInHandler] = field(default_factory=dict)  # rank -> its last call in a handler
    by_thread: set[tuple[str, int]] = field(default_factory=set)  # lines from which another thread than the main calls
    destroyed: dict[int, events.GroupsDestroyed] = field(default_factory=dict)  # ranks that have left all groups
    groups: NewGroupCalls = field(default_factory=NewGroupCalls)
    timeline: Timeline = field(default_factory=partial(Timeline, text=source_line))
    places: dict[int, tuple[str, int]] = field(default_factory=dict)  # rank -> file and line where it was last seen
    last_event_at: dict[int, float] = field(default_factory=dict)  # rank -> time of its last event
    pids: dict[int, int] = field(default_factory=dict)  # rank -> its last process
    started_at: dict[int, float] = field(default_factory=dict)  # rank -> when it was started for the first time
    restart: int = 0  # how often the ranks were restarted
    notes: list[str] = field(default_factory=list)
    standstill: str = ""  # the note that nothing moves, while that is so
    time: float = 0.0  # of the last event
    hung: events.Hung | None = None
    end: events.End | None = None
    only_broken_claims: bool = False  # of the asserts of a script that is not a demo, show only those that fail

    @classmethod
    def after(cls, past: Iterable[events.Event]) -> RunState:
        """The state of a run after these events."""
        state = cls()
        for event in past:
            state.add(event)
        return state

    def add(self, event: events.Event) -> None:
        self.timeline.add(event)
        self.time = max(self.time, events.when(event))
        if isinstance(event, events.RankEvent):
            self.last_event_at[event.rank] = event.time
        if handler := self._handlers.get(type(event)):
            handler(self, event)
        if self.standstill and not isinstance(event, events.Alive | events.Note):
            self.notes.remove(self.standstill)
            self.standstill = ""

    def _begin(self, event: events.Began) -> None:
        self.began = event

    def _hang(self, event: events.Hung) -> None:
        self.hung = event

    def _finish(self, event: events.End) -> None:
        self.end = event

    def _issue(self, event: events.Issued) -> None:
        rank, number, operation = event.rank, event.number, event.operation
        self.stands.pop(rank, None)
        self.waits.setdefault(rank, {})[number] = operation.op
        if operation.in_background and not self._on_gpu:
            self.background.add((rank, number))
        self.last_call[rank] = event
        self.places[rank] = operation.file, operation.line
        self.last_result.pop(rank, None)

    def _set_result(self, event: events.Result) -> None:
        last_call = self.last_call.get(event.rank)
        if last_call and last_call.number == event.number:
            self.last_result[event.rank] = event.after

    def _end_operation(self, event: events.Ended) -> None:
        self.waits.setdefault(event.rank, {}).pop(event.number, None)
        self.background.discard((event.rank, event.number))

    def _wait(self, event: events.Waiting) -> None:
        self.background.discard((event.rank, event.number))

    def _start(self, event: events.Started) -> None:
        """Forget how a rank ended before, and what it claimed: it starts again."""
        self.pids[event.rank] = event.pid
        self.started_at.setdefault(event.rank, event.time)
        self.restart = max(self.restart, event.restart)
        self._clear_waits(event.rank)
        self.groups.restart(event.rank)
        self.joined.discard(event.rank)
        self.finished.pop(event.rank, None)
        for known in (self.exited, self.raised, self.last_call, self.last_result, self.store_waits, self.stands,
                      self.handled, self.destroyed, *self.claims_held.values()):  # fmt: skip
            known.pop(event.rank, None)  # type: ignore[attr-defined]

    def _join(self, event: events.Joining) -> None:
        self.places[event.rank] = self.script, event.line
        waits = self.waits.setdefault(event.rank, {})
        self.destroyed.pop(event.rank, None)
        if event.done:
            waits.pop(0, None)
            self.joined.add(event.rank)
        else:
            waits[0] = JOIN
            self.joining[event.rank] = event
            self.stands.pop(event.rank, None)

    def _form(self, event: events.Forming) -> None:
        self.places[event.rank] = event.file, event.line
        self.waits.setdefault(event.rank, {}).pop(0, None)
        if not event.done:
            self.waits[event.rank][0] = FORM
        self.groups.add(event, self.ranks)

    def _wait_for_keys(self, event: events.StoreWaiting) -> None:
        self.places[event.rank] = event.file, event.line
        self.stands.pop(event.rank, None)
        if event.done:
            self.waits.get(event.rank, {}).pop(0, None)
            waited = self.store_waits.pop(event.rank, None)
            if waited and event.failed:
                self.missed_keys[event.rank] = waited
        else:
            self.waits.setdefault(event.rank, {})[0] = event.op
            self.store_waits[event.rank] = event

    def _claim(self, event: events.Claimed) -> None:
        self.places[event.rank] = self.script, event.line
        ranks = self.claims_held.setdefault(event.line, {})
        ranks[event.rank] = ranks.get(event.rank, True) and event.held

    def _raise(self, event: events.Raised) -> None:
        self.raised[event.rank] = event

    def _locate(self, event: events.Alive) -> None:
        self.places[event.rank] = event.file, event.line
        if not event.stands_in:
            self.stands.pop(event.rank, None)
        elif (before := self.stands.get(event.rank)) is None or before.stands_in != event.stands_in:
            self.stands[event.rank] = event
        else:
            self.stands[event.rank] = replace(event, time=before.time)  # it stands there since then

    def _note_handler(self, event: events.CalledInHandler) -> None:
        self.handled[event.rank] = event

    def _note_thread(self, event: events.CalledByThread) -> None:
        self.by_thread.add((event.file, event.line))

    def _destroy(self, event: events.GroupsDestroyed) -> None:
        self.destroyed[event.rank] = event

    def _finish_script(self, event: events.ScriptFinished) -> None:
        self.finished[event.rank] = event.time

    def _exit(self, event: events.Exited) -> None:
        self.exited[event.rank] = event
        if not event.stopped:  # else it was ended while it waited, which says why
            self._clear_waits(event.rank)

    def _clear_waits(self, rank: int) -> None:
        self.background -= {(rank, number) for number in self.waits.pop(rank, {})}

    def _add_note(self, event: events.Note) -> None:
        if event.text not in self.notes and len(self.notes) < _NOTES:  # every rank may have the same note
            self.notes.append(event.text)
            if event.of_standstill:
                self.standstill = event.text

    def _add_line(self, event: events.Output) -> None:
        line = bounded(event)
        self.log.setdefault(line.rank, deque(maxlen=LINES)).append(line)
        labeled = values_in(line)
        logged = TORCH_LOG.match(line.text)
        if not labeled and not (logged and logged[1] in "IW"):  # these are only for the log of the rank
            self.lines.append(line)
            del self.lines[:-LINES]
        for label, value in labeled.items():
            values = self.rows.setdefault(label, {}).setdefault(line.rank, [])
            values.append(value)
            del values[:-LINES]
            self.printed_at.setdefault(label, {})[line.rank] = line.time
        while len(self.rows) > _LABELS:
            oldest = min(self.rows, key=lambda label: max(self.printed_at[label].values()))
            del self.rows[oldest], self.printed_at[oldest]

    # what each type of event calls; a type that is not named here changes nothing
    _handlers: ClassVar[dict[type[Any], Callable[[Any, Any], None]]] = {
        events.Began: _begin,
        events.Started: _start,
        events.Alive: _locate,
        events.Output: _add_line,
        events.Issued: _issue,
        events.Ended: _end_operation,
        events.Waiting: _wait,
        events.Result: _set_result,
        events.Joining: _join,
        events.Forming: _form,
        events.StoreWaiting: _wait_for_keys,
        events.Claimed: _claim,
        events.Raised: _raise,
        events.CalledInHandler: _note_handler,
        events.CalledByThread: _note_thread,
        events.GroupsDestroyed: _destroy,
        events.ScriptFinished: _finish_script,
        events.Note: _add_note,
        events.Exited: _exit,
        events.Hung: _hang,
        events.End: _finish,
    }

    def copy(self) -> RunState:
        """A copy that later events do not change."""
        copied: RunState = pickle.loads(pickle.dumps(self))  # noqa: S301  # our own; ten times faster than copy.deepcopy
        return copied

    def changed(self, label: str, rank: int, since: float) -> bool:
        """Whether a rank has printed another value of a label after `since`."""
        values = self.rows[label].get(rank, [])
        return self.printed_at[label].get(rank, 0.0) > since and values[-1:] != values[-2:-1]

    @property
    def _on_gpu(self) -> bool:
        """True if a GPU runs the operations: then no event says when the script begins to wait for one."""
        return self.began is not None and self.began.device == "cuda"

    @property
    def script(self) -> str:
        return self.began.script if self.began else ""

    @property
    def ranks(self) -> int:
        return self.began.ranks if self.began else 0

    @property
    def all_ranks(self) -> tuple[int, ...]:
        return tuple(range(self.ranks))

    def in_script(self, rank: int) -> int | None:
        """The line of the script where a rank was last seen; None if that was in another file."""
        file, line = self.places.get(rank, ("", 0))
        same = file == self.script or (Path(file).is_absolute() and file.endswith(f"/{Path(self.script).name}"))
        return line if same and line else None

    def verdicts(self) -> list[ClaimVerdict]:
        """Each claim with its verdict and the ranks on which it was proven or broken."""
        verdicts: list[ClaimVerdict] = []
        for claim in self.began.claims if self.began else ():
            held = self.claims_held.get(claim.line, {})
            broken = sorted(rank for rank, good in held.items() if not good)
            if broken:
                verdicts.append((claim, "broken", broken))
            elif held:
                verdicts.append((claim, "proven", sorted(held)))
            else:
                verdicts.append((claim, "not reached", []))
        return verdicts

    def communicates_in(self, rank: int) -> str:
        """The oldest unfinished operation of a rank, including those in the background, or ""."""
        waits = self.waits.get(rank)
        return waits[min(waits)] if waits else ""

    def blocked_in(self, rank: int) -> str:
        """The oldest unfinished operation that blocks the script of a rank, or "". One in the background does not."""
        waits = self.waits.get(rank, {})
        return next((waits[number] for number in sorted(waits) if (rank, number) not in self.background), "")

    def doing(self, rank: int) -> str:
        """What a rank does, in words: the operation that it waits in, computing, or how it ended."""
        if rank in self.exited:
            return "stopped" if self.exited[rank].stopped else "failed" if self.exited[rank].status else "done"
        op = self.blocked_in(rank) or "computing"
        return "joining" if op == JOIN else op  # short enough for a column


# A line of output as it is stored: the start of a very long one

_LONGEST_LINE = 4000  # characters of a line that are stored; a screen shows no more of it


def bounded(line: Output) -> Output:
    """A line as it is stored: of a very long one its start, and how much was left out."""
    more = len(line.text) - _LONGEST_LINE
    if more <= 0:
        return line
    end = f" ... and {more:,} more characters"
    value = line.value if line.value is None else line.value[: _LONGEST_LINE - len(line.label or "")] + end
    return replace(line, text=line.text[:_LONGEST_LINE] + end, value=value)
