"""The live view of a run on a screen."""

import contextlib
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.text import Text

from ddpquiz.events.event import Event
from ddpquiz.events.run_frame import describe_frame
from ddpquiz.events.run_state import RunState
from ddpquiz.events.saved_run import RecentEvents
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run
from ddpquiz.ranks.server_connection import server
from ddpquiz.terminal.kit.key_screen import Hotkey
from ddpquiz.terminal.kit.keys import Keys
from ddpquiz.terminal.kit.layout import shown_path
from ddpquiz.terminal.kit.screen import Screen
from ddpquiz.terminal.runs.frame import INTERRUPTED, TERMINATED, Hint, frame, on_screen, remarks, torchrun
from ddpquiz.terminal.runs.plain_lines import stopped_by
from ddpquiz.terminal.runs.replay import EndScreen
from ddpquiz.terminal.runs.run_screen import Lesson, RunScreen
from ddpquiz.terminal.runs.script import suggestions, tries

_PATIENCE = 0.25  # seconds; a run that is over by then is not worth a screen of its own
_FLASH = 0.02  # the same where a screen is open already
_FRAME = 0.1  # seconds between two frames, at the least
_SHARE = 0.1  # of a core that drawing may take
_IDLE = 0.5  # seconds after which time itself has moved enough for a new frame
_FROM_START = "This is the run again, from its start."
Begin = Callable[[Request, bool], Run]  # starts a run; the flag tells whether it counts as the run that was asked for
_FREEZE = Hotkey("f", "freeze", "freeze the picture while the run goes on")
_FOLLOW = Hotkey("space", "go on", "follow the run again (or enter, f)", also=("enter", "f"))
STOP = Hotkey("q", "stop", "end the run (or ctrl+c)")


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveOptions:
    """How runs are shown while they last.

    With `stay`, in the middle of a sitting, nothing is left in the scrollback, and a key leads back. `hold` tells
    whether the page of a run that has ended waits for a key; None: only if it does not fit on the screen. With `step`,
    a run opens at its first operation once it has ended. With `brief`, a run that ends well waits for no key: the
    caller shows its result. With `summary`, its account is printed afterwards, and holds all advice.
    `lesson` draws the one that explains a failure.
    """

    hint: Hint | None = None
    stay: bool = False
    hold: bool | None = None
    step: bool = False
    brief: bool = False
    summary: bool = False
    lesson: Lesson | None = None


class ShownRuns(NamedTuple):
    """The states of the run that was asked for, and of the last one: the user may have started others meanwhile."""

    asked: RunState
    last: RunState


def live(begin: Begin, request: Request, console: Console, options: LiveOptions) -> ShownRuns:
    """Show a run while it lasts, and any run that the user starts from its screen.

    The first run counts as the one that was asked for; a repeat of it counts instead if no earlier one succeeded. The
    last frame is left in the scrollback, at once if it fits on the screen.
    """
    asked = request
    asked_state: RunState | None = None
    with Screen(console) as screen, Keys(away=screen.suspended) as keys:
        keys.discard(but=("ctrl+c", "eof"))  # a `q` that was typed for the shell is not meant for us
        if options.stay:
            screen.open()
        while True:
            is_asked = _is_same_run(request, asked) and not (asked_state and _ended_well(asked_state))
            _wait_for_torch(screen.console, keys)
            end = _show(begin(request, is_asked), screen, keys, options)
            if is_asked:
                asked_state = end.state
            if end.chosen:
                request = replace(request, args=end.chosen.args, ranks=end.chosen.ranks)
                options = replace(options, hint=None)  # it was about the run that was asked for first
            elif not end.again:
                break
    if not options.stay:
        for part in _left(end.state, console, end.hint, summary=options.summary, stepped=end.was_shown).renderables:
            console.print(part, soft_wrap=isinstance(part, Text))  # a command can be copied
    return ShownRuns(asked_state or end.state, end.state)


def _ended_well(state: RunState) -> bool:
    return state.end is not None and state.end.ok


def _is_same_run(request: Request, asked: Request) -> bool:
    """Whether two requests are for the same run: the user can only change the arguments and the ranks."""
    return (request.args, request.ranks) == (asked.args, asked.ranks)


def _show(run: Run, screen: Screen, keys: Keys, options: LiveOptions) -> EndScreen:
    """Show a run that has just begun; return the screen of its end, with what the user wants next."""
    recent = RecentEvents()
    run.listeners.append(recent.add)
    view = _LiveScreen(run, screen, options.hint)
    view.can_start = True
    with contextlib.nullcontext() if options.stay else stopped_by(run, signal.SIGTERM, TERMINATED):
        view.follow_briefly(keys)
        if screen.is_open or not run.over or not _fits(run.seen, screen.console, options.hint):
            view.loop(screen, keys)
    ended = run.seen.end
    end = EndScreen(run.seen, recent.events, screen, keys, options.hint)
    end.in_sitting = options.stay
    end.can_start, end.chosen, end.lesson = view.can_start, view.chosen, options.lesson
    if end.chosen or view.is_terminated or (options.brief and not view.outlasted and _ended_well(run.seen)):
        return end
    interrupted = ended is not None and ended.why == INTERRUPTED
    opens_replay = options.step and not interrupted
    if opens_replay:
        end.walk(note=_FROM_START)
    holds = not _fits(run.seen, screen.console, end.hint) if options.hold is None else options.hold
    if options.stay or opens_replay or view.outlasted or (holds and not interrupted):
        end.loop(screen, keys)
    return end


def _wait_for_torch(console: Console, keys: Keys) -> None:
    """Show what the user waits for, and let them leave meanwhile."""
    serving = server()
    if serving.is_ready(0):
        return
    console.file.write("Loading torch ...")
    console.file.flush()
    while not serving.is_ready(0.05):
        if keys.get(0) in ("ctrl+c", "eof"):
            raise KeyboardInterrupt
    console.file.write("\r\x1b[K")


def _fits(state: RunState, console: Console, hint: Hint | None) -> bool:
    shown = console.render_lines(_left(state, console, hint), pad=False)
    return len(shown) < console.height - 1  # the command line above it, and a prompt


def _left(
    state: RunState, console: Console, hint: Hint | None, *, summary: bool = False, stepped: bool = False
) -> Group:
    """What stays in the scrollback: the last frame, and commands to go on from there.

    `stepped` says that the user was offered to step through the run.
    """
    parts: list[RenderableType] = [
        frame(describe_frame(state, shown_path), console.width, hint=hint),
        *remarks(state, summary=summary),
    ]
    if state.began:
        parts += [Text(), Text(f"To run it without ddpquiz: {torchrun(state.began)}", style="quiet")]
        if state.only_broken_claims and not stepped:  # a script of the user's own
            parts.append(Text("To step through its calls, run it with --step before the script.", style="quiet"))
    ran = state.began.args if state.began else ()
    left = (
        [each for each in suggestions(state.began) if not ran or each.args != ran] if state.end and state.end.ok else []
    )
    return Group(*parts, *([Text(), *tries(left)] if left else []))


class _LiveScreen(RunScreen):
    """The live view of a run: painted when something has changed, and never for more than a tenth of the time."""

    def __init__(self, run: Run, screen: Screen, hint: Hint | None) -> None:
        super().__init__(screen)
        self.run, self.hint = run, hint
        self.outlasted = False  # the user still read a page when the run ended
        self._paused: tuple[RunState, float] | None = None  # what is shown while the view is paused, and its time
        self._events = self._painted = 0  # events so far, and at the last frame
        self._cost = 0.0  # seconds of processor time of the last frame
        run.listeners.append(self._count_event)

    @property
    def state(self) -> RunState:
        """What is shown: the run, or its copy while the view is paused."""
        return self._paused[0] if self._paused else self.run.seen

    @property
    def closed(self) -> bool:
        """Whether the run is over; what the user reads, or a paused picture, stays until the user goes on."""
        return self.run.over and (not self.is_held or self.is_terminated)

    @property
    def is_terminated(self) -> bool:
        return self.run.seen.end is not None and self.run.seen.end.why == TERMINATED

    @property
    def is_held(self) -> bool:
        """Whether the user reads something that must not disappear when the run ends."""
        return self._paused is not None or not self.on_picture

    @property
    def early(self) -> tuple[str, ...]:
        return ("ctrl+c", "ctrl+z", "eof")

    def follow_briefly(self, keys: Keys) -> None:
        """Follow the run for a moment without a screen, which a run that is over by then is not worth."""
        end = time.monotonic() + (_FLASH if self.screen.is_open else _PATIENCE)
        while not self.run.over and time.monotonic() < end:
            key = self._read(end, keys)
            if key == "ctrl+c":
                self.interrupt()
            elif key:
                self.handle_key(key)

    def picture(self) -> tuple[RenderableType, list[RenderableType]]:
        now = self._paused[1] if self._paused else self.run.now()
        shown = describe_frame(self.state, shown_path, now=now)
        return on_screen(shown, self.screen.console.size, hint=self.hint)

    def picture_keys(self) -> list[Hotkey]:
        return [_FOLLOW if self._paused else _FREEZE, STOP]

    def press(self, key: str) -> None:
        if key == "space":
            self._paused = None
        elif key == "f":
            self._paused = (self.run.seen.copy(), self.run.now())
        elif key == "q":
            self._open("picture")
            self._paused, self.outlasted = None, False
            if not self.run.over:
                self.run.stop(INTERRUPTED)

    @property
    def status(self) -> str:
        if self._paused:
            return f"frozen, the run {'has ended' if self.run.over else 'goes on'}"
        return "the run has ended" if self.run.over else ""

    def wait(self, keys: Keys) -> str | None:
        """Follow the run until a key is pressed or there is something new to paint."""
        if self.run.over:
            self.outlasted = self.outlasted or not self.on_picture
            return keys.get()
        end, idle = time.monotonic() + max(_FRAME, self._cost / _SHARE), time.monotonic() + _IDLE
        while not self.run.over:
            if key := self._read(end, keys):
                return key
            now = time.monotonic()
            if now >= end and not self._paused and (self._events != self._painted or now >= idle):
                break
        return None

    def paint(self, screen: Screen) -> None:
        self._painted, before = self._events, time.process_time()
        super().paint(screen)
        self._cost = time.process_time() - before

    def _read(self, end: float, keys: Keys) -> str | None:
        """Read a little of the run, at most until `end`; return a key that was pressed meanwhile."""
        self.run.read(min(max(end - time.monotonic(), 0.01), 0.05))
        return keys.get(0)

    def _count_event(self, _: Event) -> None:
        self._events += 1
