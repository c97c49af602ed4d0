"""A run that stops before each operation: on at a key, and back to what was seen before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import ConsoleDimensions
from rich.text import Text

from ddpquiz.analysis.events import Issued, when
from ddpquiz.analysis.formatting import named
from ddpquiz.terminal.kit.hotkeys import Hotkey
from ddpquiz.terminal.runs.frame import on_screen
from ddpquiz.terminal.runs.replay import Tape
from ddpquiz.terminal.runs.values import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import RenderableType

    from ddpquiz.analysis.events import Event
    from ddpquiz.ranks.inside.gate import Gates
    from ddpquiz.ranks.run import Run
    from ddpquiz.terminal.kit.screen import Screen
    from ddpquiz.terminal.runs.run_pages import RunPages

MOST_LINES = 4  # that say what comes next
KEYS = (
    Hotkey("→", "next", "let the ranks make the calls before which they stand"),
    Hotkey("←", "back", "look at the stop before"),
    Hotkey("c", "run on", "let the ranks run on, without stops"),
    Hotkey("q", "stop", "end the run"),
)


@dataclass(frozen=True)
class Stop:
    """A moment when the ranks stood still: how many events had come, and what the ranks were about to call."""

    events: int
    calls: tuple[Issued, ...]


class Stepping:
    """Leads a run from stop to stop, until the learner lets it run on.

    A call before which a rank stands has not happened yet, on the screen: it does when the rank goes on.
    """

    def __init__(self, run: Run, gates: Gates) -> None:
        self.run, self.gates = run, gates
        self.events: list[Event] = []  # that have happened
        self.stops: list[Stop] = []
        self.back = 0  # how many stops before the last one are looked at
        self._tape = Tape(self.events)
        self._is_wanted = False  # a step that was asked for before the ranks stood still
        self._stands = False
        run.listeners.append(self._hear)

    @property
    def is_on(self) -> bool:
        """Whether the ranks still stop."""
        return not self.gates.open and not self.run.over

    def has_stopped(self) -> bool:
        """Whether the ranks have come to a new stop; call it often."""
        if not self.is_on or self._stands or not self.run.stands:
            return False
        self.stops.append(Stop(len(self.events), self._calls()))
        self._stands = True
        if self._is_wanted:
            self._step()
        return True

    def take(self, key: str) -> bool:
        """Obey a key, if it is one of these."""
        match key:
            case "right" | "space" | "enter" if self.back:
                self.back -= 1
            case "right" | "space" | "enter":
                self._step()
            case "left":
                self.back = min(self.back + 1, max(0, len(self.stops) - 1))
            case "c":
                self.back = 0
                self._go_on(self.gates.let_go)
            case _:
                return False
        return True

    def paint(self, looking: RunPages, screen: Screen) -> None:
        """Draw the stop that is looked at: what each rank brings and got, and what it calls next."""
        stop = self.stops[-1 - self.back] if self.stops else Stop(0, ())
        on_the_way = not self.back and not self._stands
        seen = self._tape.wind(len(self.events) if on_the_way else stop.events)
        coming = [Text("on the way to the next stop", style="quiet")] if on_the_way else next_calls(stop.calls)
        size = screen.console.size
        room = ConsoleDimensions(size.width, size.height - len(coming))

        def picture() -> tuple[RenderableType, Sequence[RenderableType]]:
            body, below = on_screen(seen, room, seen.time, tensors=True, since=self._before())
            return body, [*below, *coming]

        count = f"step {len(self.stops) - self.back}" + (f" of {len(self.stops)}" if self.back else "")
        looking.paint(seen, picture, KEYS, notice=count if self.stops else "")

    def _step(self) -> None:
        self._is_wanted = not self._stands
        if self._stands:
            self._stands = False
            self._go_on(self.run.step)

    def _hear(self, event: Event) -> None:
        if not self.gates.open and not isinstance(event, Issued):  # later ones are looked at elsewhere
            self.events.append(event)

    def _calls(self) -> tuple[Issued, ...]:
        """Return the calls before which ranks stand."""
        return tuple(call for _, waiting in sorted(self.gates.before.items()) for call in waiting)

    def _go_on(self, go_on: Callable[[], None]) -> None:
        """Let the ranks go on; what they stood before happens then, and not when they came to it."""
        calls = self._calls()
        go_on()
        self.events += [replace(call, time=self.gates.went_on_at) for call in calls]

    def _before(self) -> float:
        """Return the time of the stop before the one that is looked at; what changed since is marked."""
        at = len(self.stops) - 2 - self.back
        return when(self.events[self.stops[at].events - 1]) if at >= 0 else 0.0


def next_calls(calls: Iterable[Issued]) -> list[Text]:
    """Say what ranks are about to call, those that call the same from the same line together."""
    together: dict[tuple[object, ...], list[Issued]] = {}
    for call in calls:
        toward = call.peer if call.op in ("send", "recv") else None
        same = (call.op, call.file, call.line, toward, call.shapes, call.reduce, call.before)
        together.setdefault(same, []).append(call)
    lines = [_next(each) for each in together.values()]
    if len(lines) > MOST_LINES:
        more = len(lines) - MOST_LINES + 1
        lines[MOST_LINES - 1 :] = [Text(f"and {more} more", style="quiet")]
    return lines


def _next(calls: Sequence[Issued]) -> Text:
    call = calls[0]
    who = f"{named({each.rank for each in calls})} call{'s' * (len(calls) == 1)}"
    peer = "" if call.peer is None else f"{'to' if call.op in ('send', 'reduce', 'gather') else 'from'} {call.peer}"
    bucket = "" if call.bucket is None else f"bucket {call.bucket}"
    what = shortened(" | ".join(call.before)) or (f"{call.bytes:,} bytes" if call.dtype else "")
    where = f"{Path(call.file).name}:{call.line}" if call.line else ""
    line = Text(f"next  {who} ", style="head", no_wrap=True, overflow="ellipsis")
    return line.append(" · ".join(part for part in (call.op, peer, call.reduce, bucket, where, what) if part), "accent")
