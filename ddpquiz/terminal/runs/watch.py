"""Follow a run to its end: live on a screen, as plain lines, or as JSON."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from ddpquiz.analysis.events import encode
from ddpquiz.analysis.run_state import RunState
from ddpquiz.analysis.saved_run import Recent
from ddpquiz.ranks.launch import server
from ddpquiz.terminal.kit.hotkeys import Hotkey
from ddpquiz.terminal.kit.style import complaints
from ddpquiz.terminal.runs.frame import frame, on_screen, say, summary, torchrun
from ddpquiz.terminal.runs.replay import step_through, steps
from ddpquiz.terminal.runs.run_pages import URGENT, RunPages
from ddpquiz.terminal.runs.suggestions import to_try, tries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console

    from ddpquiz.analysis.events import Event
    from ddpquiz.ranks.run import Run
    from ddpquiz.terminal.kit.keys import Keys
    from ddpquiz.terminal.kit.screen import Screen

INTERRUPTED = "You stopped the run."
TERMINATED = "SIGTERM ended the run."  # a scheduler sends it, and expects what can be saved to be saved
PATIENCE = 0.25  # seconds; a run that is over by then is not worth a screen of its own
FRAME = 0.1  # seconds between two frames, at the least
SHARE = 0.1  # of a core that drawing may take
STOP = Hotkey("q", "stop", "end the run (ctrl+c does it too)")
AFTER = (
    Hotkey("enter", "go on", "leave this screen (q does it too)"),
    Hotkey("← →", "step through", "see the run again, one call at a time"),
    Hotkey("r", "again", "run it once more"),
)
IDLE = 0.5  # seconds after which time itself has moved enough for a new frame


def live(
    start: Callable[[], Run],
    console: Console,
    *,
    look: str = "",
    found: str = "",
    stay: bool = False,
    step: bool = False,
) -> RunState:
    """Show a run while it lasts; `start` begins it, also once more.

    `look` says what to look at, and `found`, once a run has ended well, what was to be seen there.

    The last frame is left in the scrollback, at once if it fits on the screen. With `stay`, in the middle of a sitting,
    nothing is left there, and a key leads back. With `step`, the run opens at its first operation once it has ended.
    """
    from ddpquiz.terminal.kit.keys import Keys
    from ddpquiz.terminal.kit.screen import Screen

    screen, seen, again, at_end = Screen(console), RunState(), True, look
    with contextlib.ExitStack() as painted, Keys(away=screen.suspended) as keys:
        keys.drop(keep=("ctrl+c", "eof"))  # a `q` that was typed for the shell is not meant for us
        on_screen = stay
        if stay:
            painted.enter_context(screen)
        while again:
            recent = Recent()
            _wait_for_torch(console, keys)
            run = start()
            seen = run.seen
            run.listeners.append(recent.add)
            view = View(run, screen, look)
            with contextlib.nullcontext() if stay else _stopping(run, signal.SIGTERM, TERMINATED):
                for key in _follow(run, 0.02 if on_screen else PATIENCE, keys):
                    view.handle_key(key)
                if not on_screen and (not run.over or not _fits(seen, console, look)):
                    painted.enter_context(screen)
                    on_screen = True
                view.follow(keys)
            at_end = found if found and seen.end and seen.end.ok else look
            if _terminated(seen):
                break
            opened = step and not _interrupted(seen)
            if opened:
                if not on_screen:
                    painted.enter_context(screen)
                    on_screen = True
                step_through(recent.events, screen, keys)
            hold = stay or opened or view.is_held or not (_fits(seen, console, at_end) or _interrupted(seen))
            again = hold and _looked(seen, recent.events, view.looking, keys, at_end)
    if not stay:
        _leave_in_scrollback(seen, console, at_end)
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


def _fits(seen: RunState, console: Console, look: str) -> bool:
    shown = console.render_lines(_left(seen, console, look), pad=False)
    return len(shown) < console.height - 1  # the command line above it, and a prompt


def _interrupted(seen: RunState) -> bool:
    return seen.end is not None and seen.end.why == INTERRUPTED


def _terminated(seen: RunState) -> bool:
    return seen.end is not None and seen.end.why == TERMINATED


def _leave_in_scrollback(seen: RunState, console: Console, look: str) -> None:
    for part in _left(seen, console, look).renderables:
        console.print(part, soft_wrap=isinstance(part, Text))  # a command can be copied


def _left(seen: RunState, console: Console, look: str) -> Group:
    """Return what stays in the scrollback: the last frame, and how to go on from there."""
    parts = [frame(seen, console.width, look=look)]
    if seen.began:
        parts += [Text(), Text(f"The same without ddpquiz: {torchrun(seen.began)}", style="quiet")]
    found = to_try(seen.began) if seen.end and seen.end.ok else ()
    return Group(*parts, *([Text(), *tries(found)] if found else []))


class View:
    """The live view of a run: painted when something has changed, and never for more than a tenth of the time."""

    def __init__(self, run: Run, screen: Screen, look: str) -> None:
        self.run, self.screen, self.look = run, screen, look
        self.looking = RunPages(screen)
        self.frames = 0
        self._still: tuple[RunState, float] | None = None  # what is shown while the view is paused, and its time
        self._events = 0
        run.listeners.append(self._count_event)

    @property
    def is_held(self) -> bool:
        """Whether the learner looks at something that must not vanish when the run ends."""
        return self._still is not None or self.looking.is_away

    def follow(self, keys: Keys) -> None:
        """Show the run until it is over."""
        while not self.run.over:
            painted, before = self._events, time.process_time()
            self.paint()
            cost, at = time.process_time() - before, time.monotonic()
            while not self.run.over:
                pressed = _follow(self.run, max(FRAME, cost / SHARE), keys)
                for key in pressed:
                    self.handle_key(key)
                idle = self._still is not None or (self._events == painted and time.monotonic() - at < IDLE)
                if pressed or not idle:
                    break
        while self._still and not _terminated(self.run.seen):  # what is paused stays until the learner goes on
            self.paint()
            self.handle_key(keys.get() or "")

    def handle_key(self, key: str) -> None:
        """Obey a key."""
        if self.looking.handle_key(key, self.run.seen):
            return
        if key == "space":
            self._still = None if self._still else (self.run.seen.copy(), self.run.now())
        elif key in ("q", *URGENT):
            self._still = None
            if not self.run.over:
                self.run.stop(INTERRUPTED)

    def paint(self) -> None:
        """Draw a frame."""
        self.frames += 1
        seen, now = self._still or (self.run.seen, self.run.now())
        hold = "go on" if self._still else "pause"
        keys = [Hotkey("space", hold, "hold the picture while the run goes on, or let it go"), STOP]
        notice = f"paused, the run {'has ended' if self.run.over else 'goes on'}" if self._still else ""
        self.looking.paint(
            seen, lambda: on_screen(seen, self.screen.console.size, now, look=self.look), keys, notice=notice
        )

    def _count_event(self, _: Event) -> None:
        self._events += 1


def _looked(seen: RunState, events: Sequence[Event], looking: RunPages, keys: Keys, look: str) -> bool:
    """Let the learner look at the last frame, or step through the run; return whether it shall run once more."""
    keys.drop()
    screen = looking.screen
    while True:
        looking.paint(
            seen, lambda: (frame(seen, screen.console.width, look=look, verdict=False), [summary(seen)]), AFTER
        )
        key = keys.get() or ""
        if looking.handle_key(key, seen):
            continue
        if key == "r":
            return True
        if key in ("left", "right"):
            step_through(events, screen, keys, max(0, len(steps(events)) - 2) if key == "left" else 0)
        elif key in ("enter", "q", *URGENT):
            return False


def _follow(run: Run, seconds: float, keys: Keys) -> list[str]:
    """Listen to a run for some seconds, or until keys are pressed, which are returned."""
    end = time.monotonic() + seconds
    while not run.over and (left := end - time.monotonic()) > 0:
        run.read(min(left, 0.05))
        pressed = []
        while (key := keys.get(0)) is not None:
            pressed.append(key)
        if pressed:
            return pressed
    return []


def lines(run: Run, console: Console) -> RunState:
    """Print a run as plain lines, as it goes on."""
    with _stopping(run, signal.SIGINT, INTERRUPTED), _stopping(run, signal.SIGTERM, TERMINATED):
        for event in run.events():
            say(event, run.seen, console, complaints())
    return run.seen


def json_lines(run: Run) -> RunState:
    """Print every event of a run as a line of JSON."""
    with _stopping(run, signal.SIGINT, INTERRUPTED), _stopping(run, signal.SIGTERM, TERMINATED):
        while not run.over:
            for event in run.read(FRAME):
                print(encode(event))
            sys.stdout.flush()
    return run.seen


@contextlib.contextmanager
def _stopping(run: Run, number: int, why: str) -> Iterator[None]:
    """Let a signal end the run, not its report: what was seen is still printed and saved."""
    before = signal.signal(number, lambda *_: run.stop(why))
    try:
        yield
    finally:
        signal.signal(number, before)
