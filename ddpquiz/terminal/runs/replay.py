"""A saved run on the screen: forward and back, one collective at a time."""

from __future__ import annotations

from bisect import bisect_left
from functools import partial
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import ConsoleDimensions
from rich.text import Text

from ddpquiz.analysis.events import Ended, Issued, Joining, Output, Waited, when
from ddpquiz.analysis.formatting import format_place, plural
from ddpquiz.analysis.run_state import RunState
from ddpquiz.analysis.timeline import Timeline
from ddpquiz.terminal.kit.hotkeys import Hotkey
from ddpquiz.terminal.kit.style import complaints
from ddpquiz.terminal.runs.frame import frame, on_screen, say, summary
from ddpquiz.terminal.runs.run_pages import RunPages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console, RenderableType

    from ddpquiz.analysis.events import Event
    from ddpquiz.terminal.kit.keys import Keys
    from ddpquiz.terminal.kit.screen import Screen

PACE = 0.3  # seconds that a step is shown while it plays
PLACES = 16  # of a long run where it is kept what was seen
KEYS = (
    Hotkey("← →", "step", "the call of a rank before, and the next one"),
    Hotkey("n N", "operation", "the next operation as a whole, and the one before"),
    Hotkey("space", "play", "step on by itself, or stop that"),
)
LEAVE = Hotkey("q", "leave", "leave; the frame stays in the terminal")
BACK = Hotkey("q", "back", "back to the end of the run")
FAR_KEYS = Hotkey("home", "start", "before the first step"), Hotkey("end", "finish", "the end of the run")


def steps(events: Sequence[Event]) -> list[int]:
    """Return how many events have happened at each step: before each operation that a rank calls, and at the end."""
    return [number for number, event in enumerate(events) if isinstance(event, Issued)] + [len(events)]


def beginnings(events: Sequence[Event], stops: Sequence[int]) -> list[int]:
    """Return the steps before a first rank calls another operation, and the last step."""
    timeline, found = Timeline(), []
    for number, event in enumerate(events):
        before = timeline.count
        timeline.add(event)
        if timeline.count > before:
            found.append(bisect_left(stops, number))
    return [*found, len(stops) - 1]


class Tape:
    """A run that can be wound to any event; what it showed is kept at some places, so that going back is fast."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        self.seen, self._at = RunState(), 0
        self._apart = max(1000, len(events) // PLACES)
        self._kept = {0: RunState()}

    def wind(self, to: int) -> RunState:
        """Return what the first `to` events show."""
        if to < self._at:
            self._at = max(place for place in self._kept if place <= to)
            self.seen = self._kept[self._at].copy()
        for event in self.events[self._at : to]:
            self.seen.add(event)
            self._at += 1
            if self._at % self._apart == 0 and self._at not in self._kept:
                self._kept[self._at] = self.seen.copy()
        return self.seen


def replay(events: Sequence[Event], console: Console) -> RunState:
    """Play a saved run on a screen of its own, and leave the frame where the learner stopped in the scrollback."""
    from ddpquiz.terminal.kit.keys import Keys
    from ddpquiz.terminal.kit.screen import Screen

    screen = Screen(console)
    with screen, Keys(away=screen.suspended) as keys:
        at = step_through(events, screen, keys, leave=LEAVE)
    seen = Tape(events).wind(steps(events)[at])
    console.print(frame(seen, console.width, tensors=seen.end is None))
    return seen


def step_through(events: Sequence[Event], screen: Screen, keys: Keys, at: int = 0, *, leave: Hotkey = BACK) -> int:
    """Let the learner go through a run step by step, from step `at`; return the step at which they left."""
    stops, playing, looking, tape = steps(events), False, RunPages(screen), Tape(events)
    whole = beginnings(events, stops)
    screen.to_top()
    while True:
        before = when(events[stops[at - 1] - 1]) if at else 0.0
        seen, last = tape.wind(stops[at]), at == len(stops) - 1
        looking.paint(
            seen,
            partial(_frame, tape, screen, before, next_step(events, stops, at, screen.console.width)),
            [*KEYS, leave],
            rest=FAR_KEYS,
        )
        playing = playing and not last
        key = keys.get(PACE if playing else None)
        if key and (looking.is_away or key not in ("home", "end")) and looking.handle_key(key, seen):
            continue
        match key:
            case None:
                at += 1
            case "space" | "enter":
                playing = not playing
            case "right":
                at, playing = min(at + 1, len(stops) - 1), False
            case "left":
                at, playing = max(at - 1, 0), False
            case "n":
                at, playing = next((step for step in whole if step > at), at), False
            case "N":
                at, playing = next((step for step in reversed(whole) if step < at), 0), False
            case "home":
                at, playing = 0, False
            case "end":
                at, playing = len(stops) - 1, False
            case "q" | "escape" | "ctrl+c" | "ctrl+d" | "eof":
                screen.to_top()
                return at


def lines(events: Sequence[Event], console: Console) -> RunState:
    """Print a saved run as plain lines."""
    seen = RunState()
    for event in events:
        seen.add(event)
        say(event, seen, console, complaints())
    return seen


def _frame(tape: Tape, screen: Screen, before: float, coming: Text) -> tuple[RenderableType, list[RenderableType]]:
    """Draw a step; what has changed since the one `before` is marked. The last one shows the whole run."""
    seen, size = tape.seen, screen.console.size
    if seen.end:
        return frame(seen, size.width, verdict=False), [summary(seen), coming]
    room = ConsoleDimensions(size.width, size.height - 1)
    body, below = on_screen(seen, room, seen.time, tensors=True, since=before, until=_finish(tape.events))
    return body, [*below, coming]


def _finish(events: Sequence[Event]) -> float:
    """Return when the last rank communicated or printed."""
    said = next(
        (event for event in reversed(events) if isinstance(event, (Issued, Ended, Waited, Joining, Output))), None
    )
    return when(said or events[-1])


def next_step(events: Sequence[Event], stops: Sequence[int], at: int, width: int) -> Text:
    """Say which step this is, and what happens in the next one; of that, what does not fit is left out, not cut."""
    coming = events[stops[at]] if stops[at] < len(events) else None
    line = Text(f"step {at} of {len(stops) - 1}", style="head", no_wrap=True, overflow="ellipsis")
    if isinstance(coming, Issued):
        call = coming.operation
        size = plural(call.bytes, "byte") if call.dtype else ""
        where = format_place(call.file, call.line) if call.line else ""
        for part in (f"next: rank {coming.rank} calls {call.op}", where, size):
            if part and line.cell_len + cell_len(part) + 3 <= width:
                line.append(f" · {part}", style="accent")
    return line
