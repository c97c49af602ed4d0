"""Follow a run to its end: live on a screen, as plain lines, or as JSON."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from typing import TYPE_CHECKING

from rich.text import Text

from ddpquiz.ranks.events import encode
from ddpquiz.ranks.launch import server
from ddpquiz.ranks.seen import Seen
from ddpquiz.terminal.ranks import frame, say, torchrun
from ddpquiz.terminal.replay import step_through, steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console

    from ddpquiz.ranks.events import Event
    from ddpquiz.ranks.run import Run
    from ddpquiz.terminal.keys import Keys
    from ddpquiz.terminal.screen import Screen

INTERRUPTED = "Stopped by Ctrl-C."
PATIENCE = 0.25  # seconds; a run that is over by then is not worth a screen of its own
FRAME = 0.1  # seconds between two frames


def live(start: Callable[[], Run], console: Console, *, look: str = "", stay: bool = False) -> Seen:
    """Show a run while it lasts; `start` begins it, also once more.

    The last frame is left in the scrollback, at once if it fits on the screen. With `stay`, in the middle of a sitting,
    nothing is left there, and a key leads back.
    """
    from ddpquiz.terminal.keys import Keys
    from ddpquiz.terminal.screen import Screen

    screen, seen, again = Screen(console), Seen(), True
    with contextlib.ExitStack() as painted, Keys(away=screen.suspended) as keys:
        keys.drop(keep=("ctrl+c", "eof"))  # a `q` that was typed for the shell is not meant for us
        on_screen = stay
        if stay:
            painted.enter_context(screen)
        while again:
            events: list[Event] = []
            _wait_for_torch(console, keys)
            run = start()
            seen = run.seen
            run.listeners.append(events.append)
            _follow(run, 0.02 if on_screen else PATIENCE, keys)
            if not on_screen and (not run.over or not _fits(seen, console, look)):
                painted.enter_context(screen)
                on_screen = True
            while not run.over:
                screen.paint(frame(seen, console.width, live=True, look=look), Text("ctrl+c stop", style="quiet"))
                _follow(run, FRAME, keys)
            hold = stay or not (_fits(seen, console, look) or _interrupted(seen))
            again = hold and _looked(seen, events, screen, keys, look)
    if not stay:
        _leave_in_scrollback(seen, console, look)
    return seen


def _wait_for_torch(console: Console, keys: Keys) -> None:
    """Say what the learner waits for, and let them leave meanwhile."""
    serving = server()
    if serving.is_ready(0):
        return
    console.file.write("Loading torch ...")
    console.file.flush()
    while not serving.is_ready(0.05):
        if keys.get(0) in ("ctrl+c", "eof"):
            raise KeyboardInterrupt
    console.file.write("\r\x1b[K")


def _fits(seen: Seen, console: Console, look: str) -> bool:
    shown = console.render_lines(frame(seen, console.width, live=False, look=look), pad=False)
    return len(shown) < console.height - 3  # the command line above it, and a prompt


def _interrupted(seen: Seen) -> bool:
    return seen.end is not None and seen.end.why == INTERRUPTED


def _leave_in_scrollback(seen: Seen, console: Console, look: str) -> None:
    console.print(frame(seen, console.width, live=False, look=look))
    if seen.began:
        console.print(f"\nThe same without ddpquiz: {torchrun(seen.began)}", style="quiet", soft_wrap=True)


def _looked(seen: Seen, events: Sequence[Event], screen: Screen, keys: Keys, look: str) -> bool:
    """Let the learner look at the last frame, or step through the run; return whether it shall run once more."""
    keys.drop()
    foot = Text("enter go on · ← → step through it · r run again", style="quiet")
    screen.to_top()
    while True:
        screen.paint(frame(seen, screen.console.width, live=False, look=look), foot)
        match keys.get():
            case "r":
                return True
            case "left" | "right" as key:
                step_through(events, screen, keys, len(steps(events)) - 2 if key == "left" else 0)
            case "enter" | "space" | "escape" | "q" | "d" | "ctrl+c" | "eof":
                return False
            case key:
                screen.scroll(key or "")


def _follow(run: Run, seconds: float, keys: Keys) -> None:
    """Listen to a run for some seconds, and stop it when asked to."""
    end = time.monotonic() + seconds
    while not run.over and (left := end - time.monotonic()) > 0:
        run.read(min(left, 0.05))
        while (key := keys.get(0)) is not None:
            if key in ("ctrl+c", "q", "eof"):
                run.stop(INTERRUPTED)


def lines(run: Run, console: Console) -> Seen:
    """Print a run as plain lines, as it goes on."""
    with _stopping(run):
        for event in run.events():
            say(event, run.seen, console)
    return run.seen


def json_lines(run: Run) -> Seen:
    """Print every event of a run as a line of JSON."""
    with _stopping(run):
        while not run.over:
            for event in run.read(FRAME):
                print(encode(event))
            sys.stdout.flush()
    return run.seen


@contextlib.contextmanager
def _stopping(run: Run) -> Iterator[None]:
    """Let Ctrl-C end the run, not its report: what was seen is still printed."""
    before = signal.signal(signal.SIGINT, lambda *_: run.stop(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
