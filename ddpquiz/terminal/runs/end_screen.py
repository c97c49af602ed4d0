"""The screen of a run that is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddpquiz.terminal.kit.hotkeys import Hotkey
from ddpquiz.terminal.runs.failure import result
from ddpquiz.terminal.runs.frame import frame
from ddpquiz.terminal.runs.replay import ReplayScreen, steps
from ddpquiz.terminal.runs.run_screen import RunScreen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from ddpquiz.analysis.events import Event
    from ddpquiz.analysis.run_state import RunState
    from ddpquiz.terminal.kit.keys import Keys
    from ddpquiz.terminal.kit.screen import Screen

AFTER = (
    Hotkey("→", "walk through it", "see the run again from its first call, one call at a time; ← begins at its end"),
    Hotkey("enter", "go on", "leave this screen (q does it too)"),
    Hotkey("r", "again", "run it once more"),
)


class EndScreen(RunScreen):
    """The last frame of a run that is over: the user steps through it, runs it again, or leaves."""

    def __init__(self, state: RunState, events: Sequence[Event], screen: Screen, keys: Keys, look: str) -> None:
        super().__init__(screen)
        self.again = False  # run it once more
        self.look = look
        self._state, self._events, self._keys = state, events, keys

    @property
    def state(self) -> RunState:
        """The run as it ended."""
        return self._state

    def picture(self) -> tuple[RenderableType, list[RenderableType]]:
        """Draw the whole run."""
        return frame(self.state, self.screen.console.width, look=self.look, verdict=False), [result(self.state)]

    def picture_keys(self) -> list[Hotkey]:
        """Return the keys that leave, step through the run and run it again."""
        return list(AFTER)

    def press(self, key: str) -> None:
        """Step through the run, run it again, or leave."""
        match key:
            case "left" | "right":
                at = len(steps(self._events)) - 2 if key == "left" else 0
                ReplayScreen(self._events, self.screen, at).loop(self.screen, self._keys)
            case "r":
                self.again = self.left = True
            case "enter" | "q":
                self.left = True

    def interrupt(self) -> None:
        """Leave: nothing runs any more."""
        self.left = True
