"""A saved run on the screen: forward and back, one collective at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from ddpquiz.ranks.events import Issued
from ddpquiz.ranks.seen import Seen
from ddpquiz.terminal.ranks import frame, say, shown_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from ddpquiz.ranks.events import Event
    from ddpquiz.terminal.keys import Keys
    from ddpquiz.terminal.screen import Screen

PACE = 0.3  # seconds that a step is shown while it plays
KEYS = "→ next · ← back · space play · home start · end finish · q leave"


def steps(events: Sequence[Event]) -> list[int]:
    """Return how many events have happened at each step: before each operation that a rank calls, and at the end."""
    return [number for number, event in enumerate(events) if isinstance(event, Issued)] + [len(events)]


def picture(events: Sequence[Event]) -> Seen:
    """Return what these events show."""
    seen = Seen()
    for event in events:
        seen.add(event)
    return seen


def replay(events: Sequence[Event], console: Console) -> Seen:
    """Play a saved run on a screen of its own, and leave the frame where the learner stopped in the scrollback."""
    from ddpquiz.terminal.keys import Keys
    from ddpquiz.terminal.screen import Screen

    screen = Screen(console)
    with screen, Keys(away=screen.suspended) as keys:
        at = step_through(events, screen, keys)
    seen = picture(events[: steps(events)[at]])
    console.print(frame(seen, console.width, live=False, tensors=seen.end is None))
    return seen


def step_through(events: Sequence[Event], screen: Screen, keys: Keys, at: int = 0) -> int:
    """Let the learner go through a run step by step, from step `at`; return the step at which they left."""
    stops, playing = steps(events), False
    while True:
        seen, last = picture(events[: stops[at]]), at == len(stops) - 1
        shown = frame(seen, screen.console.width, live=not last, tensors=not last)
        screen.paint(shown, _foot(events, stops, at))
        playing = playing and not last
        match keys.get(PACE if playing else None):
            case None:
                at += 1
            case "space" | "enter":
                playing = not playing
            case "right":
                at, playing = min(at + 1, len(stops) - 1), False
            case "left":
                at, playing = max(at - 1, 0), False
            case "home":
                at, playing = 0, False
            case "end":
                at, playing = len(stops) - 1, False
            case "q" | "escape" | "ctrl+c" | "ctrl+d" | "eof":
                return at
            case key:
                screen.scroll(key)


def lines(events: Sequence[Event], console: Console) -> Seen:
    """Print a saved run as plain lines."""
    seen = Seen()
    for event in events:
        seen.add(event)
        say(event, seen, console)
    return seen


def _foot(events: Sequence[Event], stops: Sequence[int], at: int) -> Text:
    coming = events[stops[at]] if stops[at] < len(events) else None
    foot = Text(f"step {at} of {len(stops) - 1}", style="head")
    if isinstance(coming, Issued):
        size = f"{coming.bytes:,} bytes" if coming.dtype else ""
        where = f"{shown_path(coming.file)}:{coming.line}" if coming.line else ""
        parts = [f"next: rank {coming.rank} calls {coming.op}", size, where]
        foot.append(" · " + " · ".join(part for part in parts if part), style="accent")
    return foot.append("\n").append(KEYS, style="quiet")
