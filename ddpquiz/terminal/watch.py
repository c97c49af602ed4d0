"""Follow a run to its end: live on a screen, as plain lines, or as JSON."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from ddpquiz.ranks.events import encode
from ddpquiz.ranks.seen import Seen
from ddpquiz.terminal.ranks import frame, say, torchrun
from ddpquiz.terminal.style import prose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

    from ddpquiz.ranks.events import Event
    from ddpquiz.ranks.run import Run
    from ddpquiz.terminal.keys import Keys
    from ddpquiz.terminal.screen import Screen

INTERRUPTED = "Stopped by Ctrl-C."
PATIENCE = 0.25  # seconds; a run that is over by then is not worth a screen of its own
FRAME = 0.1  # seconds between two frames


def live(run: Run, console: Console) -> Seen:
    """Show a run on a screen of its own while it lasts, and leave its last frame in the scrollback."""
    from ddpquiz.terminal.keys import Keys
    from ddpquiz.terminal.screen import Screen

    screen = Screen(console)
    seen = Seen()
    with Keys(away=screen.suspended) as keys:
        keys.drop(keep=("ctrl+c", "eof"))  # a `q` that was typed for the shell is not meant for us
        _follow(run, seen, PATIENCE, keys)
        if not run.over:
            with screen:
                while not run.over:
                    screen.paint(frame(seen, console.width, live=True), Text("ctrl+c stop", style="quiet"))
                    _follow(run, seen, FRAME, keys)
    console.print(frame(seen, console.width, live=False))
    if seen.began:
        console.print(f"\nThe same without ddpquiz: {torchrun(seen.began)}", style="quiet", soft_wrap=True)
    return seen


def visit(start: Callable[[], Run], console: Console, look: str) -> Seen:
    """Show a run in the middle of a sitting: `start` begins it, also a second time, and a key leads back."""
    from ddpquiz.terminal.keys import Keys
    from ddpquiz.terminal.screen import Screen

    screen = Screen(console)
    hint = Text.assemble(("look at  ", "quiet"), prose(look)) if look else Text()
    with screen, Keys(away=screen.suspended) as keys:
        again = True
        while again:
            seen = Seen()
            screen.paint(frame(seen, console.width, live=True), Text("ctrl+c stop", style="quiet"))
            run = start()
            while not run.over:
                _follow(run, seen, FRAME, keys)
                screen.paint(frame(seen, console.width, live=not run.over), Text("ctrl+c stop", style="quiet"))
            again = _looked(seen, screen, keys, hint)
    return seen


def _looked(seen: Seen, screen: Screen, keys: Keys, hint: Text) -> bool:
    """Let the learner look at the last frame; return whether it shall run once more."""
    keys.drop()
    foot = Group(hint, Text("enter back · r run again", style="quiet")) if hint else Text("enter back · r run again")
    while True:
        screen.paint(frame(seen, screen.console.width, live=False), foot)
        key = keys.get()
        if key == "r":
            return True
        if key in ("enter", "space", "escape", "q", "d", "ctrl+c", "eof"):
            return False
        screen.scroll(key or "")


def _follow(run: Run, seen: Seen, seconds: float, keys: Keys) -> None:
    """Take in what happens for some seconds, and stop the run when asked to."""
    end = time.monotonic() + seconds
    while not run.over and (left := end - time.monotonic()) > 0:
        for event in run.read(min(left, 0.05)):
            seen.add(event)
        while (key := keys.get(0)) is not None:
            if key in ("ctrl+c", "q", "eof"):
                run.stop(INTERRUPTED)


def keep(run: Run) -> list[Event]:
    """Return a list that fills with the events of a run while somebody follows it."""
    kept: list[Event] = []
    run.listeners.append(kept.append)
    return kept


def lines(run: Run, console: Console) -> Seen:
    """Print a run as plain lines, as it goes on."""
    seen = Seen()
    with _stopping(run):
        while not run.over:
            for event in run.read(FRAME):
                seen.add(event)
                say(event, seen, console)
    return seen


def json_lines(run: Run) -> Seen:
    """Print every event of a run as a line of JSON."""
    seen = Seen()
    with _stopping(run):
        while not run.over:
            for event in run.read(FRAME):
                seen.add(event)
                print(encode(event))
            sys.stdout.flush()
    return seen


@contextlib.contextmanager
def _stopping(run: Run) -> Iterator[None]:
    """Let Ctrl-C end the run, not its report: what was seen is still printed."""
    before = signal.signal(signal.SIGINT, lambda *_: run.stop(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
