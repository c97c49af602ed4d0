"""A run that is over: its last frame, and the run again, forward and back, one operation at a time."""

from collections.abc import Sequence
from functools import cached_property

from rich.cells import cell_len
from rich.console import Console, ConsoleDimensions, RenderableType
from rich.text import Text

from ddpquiz.events.event import Ended, Event, Issued, Joining, Output, Waited, when
from ddpquiz.events.run_frame import describe_frame
from ddpquiz.events.run_state import RunState
from ddpquiz.events.run_steps import EventCursor, beginnings, describe_next, steps, time_before
from ddpquiz.terminal.kit.key_screen import Hotkey
from ddpquiz.terminal.kit.keys import Keys
from ddpquiz.terminal.kit.layout import shown_path
from ddpquiz.terminal.kit.screen import Screen
from ddpquiz.terminal.runs.frame import Hint, frame, on_screen, remarks, result
from ddpquiz.terminal.runs.run_screen import Lesson, RunScreen

_PACE = 0.3  # seconds that a step is shown while it plays
_PLAY = Hotkey("a", "play all", "play the calls one after the other, or stop")
KEYS = (
    Hotkey("← →", "call", "go to the previous or next call of a rank (space, enter: next)", also=("space", "enter")),
    Hotkey("n N", "operation", "go to just before the first call of the next or previous operation"),
    _PLAY,
)
LEAVE = Hotkey("q", "leave", "leave; the last frame stays in the terminal")
_BACK = Hotkey("q", "back", "back to where you were")
TO_END = Hotkey("q", "end", "skip to the end of the run")
_FINISH = Hotkey("enter", "leave", "leave the run; this was its last call", also=("space",))
_STEP = Hotkey("→", "step through", "see the run again from its first call, one call at a time; ← starts from its end")
_GO_ON = Hotkey("enter", "go on", "go back to where you were (or space, q, esc)", also=("space",))
_LEAVE_END = Hotkey("enter", "leave", "leave; the last frame stays in the terminal (or space, q, esc)", also=("space",))
_AGAIN = Hotkey("r", "again", "run it once more")


def replay(
    events: Sequence[Event], console: Console, *, stay: bool = False, at_end: bool = False, lesson: Lesson | None = None
) -> RunState:
    """Play a saved run on a screen of its own, and leave the frame of the last step in the scrollback.

    With `stay`, in the middle of a sitting, nothing is left there. With `at_end`, the last step is shown first.
    """
    with Screen(console) as screen, Keys(away=screen.suspended) as keys:
        shown = ReplayScreen(events, screen, len(events) if at_end else 0, leave=_BACK if stay else LEAVE)
        shown.lesson = lesson
        shown.loop(screen, keys)
    state = shown.state
    if not stay:
        console.print(frame(describe_frame(state, shown_path), console.width, tensors=state.end is None))
    return state


class ReplayScreen(RunScreen):
    """A run that the user goes through step by step, from step `at`."""

    seldom_keys = (
        Hotkey("home", "start", "go to the start, before the first call"),
        Hotkey("end", "finish", "go to the end, after the last call"),
    )

    def __init__(
        self, events: Sequence[Event], screen: Screen, at: int = 0, *, leave: Hotkey = TO_END, hint: Hint | None = None
    ) -> None:
        super().__init__(screen)
        self._leave, self._hint = leave, hint
        self._stops = steps(events)
        self._operations = beginnings(events, self._stops)
        self._cursor = EventCursor(events)
        self._playing = False
        self._at = 0  # the step that is shown
        self._since = -1  # the step since which changes are marked
        self.finished = False  # the user has left with enter, after the last step
        self._go(at)

    @property
    def state(self) -> RunState:
        return self._cursor.state

    @property
    def focus(self) -> int:
        """The step: what has changed in it is marked, and stays on the screen."""
        return self._at

    @property
    def _at_end(self) -> bool:
        return self._at == len(self._stops) - 1

    def picture(self) -> tuple[RenderableType, list[RenderableType]]:
        """Draw a step; what has changed since the step shown before is marked. The last one shows the whole run."""
        size, events = self.screen.console.size, self._cursor.events
        coming = next_step(events, self._stops, self._at, size.width)
        if self.state.end:
            shown = describe_frame(self.state, shown_path)
            return frame(shown, size.width, hint=self._hint, verdict=False), [result(shown), coming]
        before = time_before(events, self._stops, self._since + 1)
        room = ConsoleDimensions(size.width, size.height - 1)
        last = (event for event in reversed(events) if isinstance(event, (Issued, Ended, Waited, Joining, Output)))
        shown = describe_frame(self.state, shown_path, since=before)
        until = when(next(last, events[-1]))
        body, below = on_screen(shown, room, tensors=True, hint=self._hint, until=until)
        return body, [*below, coming]

    def picture_keys(self) -> list[Hotkey]:
        keys = [_FINISH, *(key for key in KEYS if key is not _PLAY)] if self._at_end else KEYS
        return [*keys, self._leave]

    @property
    def turning(self) -> tuple[str, ...]:
        return () if self.on_picture and not self._at_end else super().turning  # space is the next call

    def patience(self) -> float | None:
        return _PACE if self._playing else None

    def wait(self, keys: Keys) -> str | None:
        key = super().wait(keys)
        if key is None:
            self._go(self._at + 1, playing=True)
        return key

    def press(self, key: str) -> None:
        match key:
            case "a":
                self._go(self._at, playing=not self._playing)
            case "enter" if self._at_end:
                self.finished = True
                self._leave_screen()
            case "right" | "enter" | "space":
                self._go(self._at + 1)
            case "left":
                self._go(self._at - 1)
            case "n":
                self._go(next((step for step in self._operations if step > self._at), self._at))
            case "N":
                self._go(next((step for step in reversed(self._operations) if step < self._at), 0))
            case "home":
                self._go(0)
            case "end":
                self._go(len(self._stops))
            case "q" | "escape":
                self._leave_screen()

    def _leave_screen(self) -> None:
        self.screen.to_top()
        self.left = True

    def _go(self, step: int, *, playing: bool = False) -> None:
        last, before = len(self._stops) - 1, self._at
        self._at = min(max(step, 0), last)
        if self._at != before:
            self._since = before if before < self._at else self._at - 1
        self._playing = playing and self._at < last
        self._cursor.seek(self._stops[self._at])

    def _scrolling(self, key: str) -> str:
        """The key as it scrolls: home and end are steps here."""
        return "" if self.on_picture and key in ("home", "end") else super()._scrolling(key)


def next_step(events: Sequence[Event], stops: Sequence[int], at: int, width: int) -> Text:
    """Draw how many calls there were so far, and which comes next; parts that do not fit are left out, not cut."""
    line = Text(f"call {at} of {len(stops) - 1}", style="head", no_wrap=True, overflow="ellipsis")
    for part in describe_next(events, stops, at):
        if line.cell_len + cell_len(part) + 3 <= width:
            line.append(f" · {part}", style="accent")
    return line


class EndScreen(RunScreen):
    """The last frame of a run that is over: the user steps through it, runs it again, or leaves."""

    def __init__(self, state: RunState, events: Sequence[Event], screen: Screen, keys: Keys, hint: Hint | None) -> None:
        super().__init__(screen)
        self.again = False  # run it once more
        self.in_sitting = False  # leaving leads back into a sitting, and not to the shell
        self.was_shown = False
        self.hint = hint
        self._state, self._events, self._keys = state, events, keys

    @property
    def state(self) -> RunState:
        return self._state

    def picture(self) -> tuple[RenderableType, list[RenderableType]]:
        self.was_shown = True
        shown = describe_frame(self.state, shown_path)
        picture = frame(shown, self.screen.console.width, hint=self.hint, verdict=False)
        return picture, [result(shown), *self._remarks]

    @cached_property
    def _remarks(self) -> list[Text]:
        """The remarks on the run, which is over: they are found once, not for every frame."""
        return remarks(self.state)

    def picture_keys(self) -> list[Hotkey]:
        return [_STEP, _GO_ON if self.in_sitting else _LEAVE_END, _AGAIN]

    def press(self, key: str) -> None:
        match key:
            case "left" | "right":
                self.walk(len(steps(self._events)) - 2 if key == "left" else 0)
            case "r":
                self.again = self.left = True
            case "enter" | "q" | "escape":
                self.left = True

    def walk(self, at: int = 0, note: str = "") -> None:
        """Go through the run from step `at`, with a note there.

        Finishing it also leaves this page, since the last step shows the same.
        """
        walk = ReplayScreen(self._events, self.screen, at, hint=self.hint)
        walk.note, walk.lesson = note, self.lesson
        walk.loop(self.screen, self._keys)
        self.left = walk.finished
