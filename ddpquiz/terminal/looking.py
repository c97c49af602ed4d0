"""What of a run is looked at: its picture, all lines of one rank, or the script; and the keys that change that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rich.console import Group
from rich.text import Text

from ddpquiz.terminal.hotkeys import Hotkey, key_line
from ddpquiz.terminal.log import log
from ddpquiz.terminal.source import LEGEND, current_line, source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import RenderableType

    from ddpquiz.ranks.history.seen import Seen
    from ddpquiz.terminal.screen import Screen

LEAVE = ("escape", "q", "backspace")
DIGITS = "0123456789"


class Looking:
    """The view of a run on a screen: `take` gets each key first, and `paint` draws what it led to."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self._view: Literal["picture", "source"] | int = "picture"  # or the rank whose log is shown
        self._follows = True  # the end of a log, or the line where the ranks are, until the learner scrolls

    @property
    def is_away(self) -> bool:
        """Whether something else than the picture is on the screen."""
        return self._view != "picture"

    def take(self, key: str, seen: Seen) -> bool:
        """Obey a key, if it says what to look at or scrolls."""
        if key in DIGITS and int(key) in seen.here:
            self._show("picture" if self._view == int(key) else int(key))
        elif key == "tab" and isinstance(self._view, int):
            self._show(seen.here[(seen.here.index(self._view) + 1) % len(seen.here)])
        elif key == "v":
            self._show("picture" if self._view == "source" else "source")
        elif key in LEAVE and self.is_away:
            self._show("picture")
        elif self.screen.scroll(key):
            self._follows = isinstance(self._view, int) and self.screen.at_end
        else:
            return False
        return True

    def paint(
        self,
        seen: Seen,
        picture: Callable[[], tuple[RenderableType, Sequence[RenderableType]]],
        keys: Sequence[Hotkey],
        notice: str = "",
        rest: Sequence[Hotkey] = (),
    ) -> None:
        """Draw the picture with what stays below it, or what is looked at instead.

        Below all that are a notice, and the keys that work, those of `rest` last: they are named where there is room.
        """
        width = self.screen.console.width
        body: RenderableType
        below: Sequence[RenderableType]
        match self._view:
            case "picture":
                body, below = picture()
                keys = [*keys, *self._keys(seen), *rest]
            case "source":
                body, below, keys = source(seen), [Text(LEGEND, style="quiet")], self._keys_away(seen)
                if self._follows:
                    self.screen.to_line(current_line(seen))
            case rank:
                body, below, keys = log(seen, rank, width), [Text(f"rank {rank}", style="head")], self._keys_away(seen)
                if self._follows:
                    self.screen.to_end()
        said = f"{notice} · " if notice else ""
        foot = Text.assemble((said, "warn"), key_line(keys, width - len(said)))
        self.screen.paint(body, Group(*below, foot))

    def _show(self, view: Literal["picture", "source"] | int) -> None:
        self._view, self._follows = view, True
        self.screen.to_top()

    def _keys(self, seen: Seen) -> list[Hotkey]:
        first, last = min(seen.here, default=0), min(max(seen.here, default=0), 9)
        logs = [Hotkey(f"{first}-{last}" if last > first else f"{first}", "log of a rank")] if first <= last else []
        return [*logs, Hotkey("v", "source")]

    def _keys_away(self, seen: Seen) -> list[Hotkey]:
        here = "v" if self._view == "source" else str(self._view)
        others = [key for key in self._keys(seen) if key.key != here]
        following = [Hotkey("tab", "next rank")] if isinstance(self._view, int) and len(seen.here) > 1 else []
        return [Hotkey("esc", "back"), *others, *following, Hotkey("↑ ↓", "scroll")]
