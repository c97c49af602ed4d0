"""What of a run is looked at: its picture, a log, the script, or a page of help; and the keys that change that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rich.console import Group
from rich.text import Text

from ddpquiz.terminal.hotkeys import HELP, Hotkey, key_line
from ddpquiz.terminal.legend import legend
from ddpquiz.terminal.log import log
from ddpquiz.terminal.source import LEGEND, source
from ddpquiz.terminal.trying import to_try, tries

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import RenderableType

    from ddpquiz.ranks.history.seen import Seen
    from ddpquiz.terminal.screen import Screen
    from ddpquiz.terminal.trying import Try

Page = Literal["source", "tries", "legend"]
PAGES: dict[str, Page] = {"v": "source", "t": "tries", "?": "legend"}
LEAVE = ("escape", "q", "backspace")
URGENT = ("ctrl+c", "ctrl+d", "eof")  # end the run, whatever is looked at
DIGITS = "0123456789"


class Looking:
    """The view of a run on a screen: `take` gets each key first, and `paint` draws what it led to."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self._view: Literal["picture"] | Page | int = "picture"  # or the rank whose log is shown
        self._tries: tuple[Try, ...] | None = None  # what the script names to try, once it is known which one runs
        self._follows = True  # the end of a log, or the line where the ranks are, until the learner scrolls

    @property
    def is_away(self) -> bool:
        """Whether something else than the picture is on the screen."""
        return self._view != "picture"

    def take(self, key: str, seen: Seen) -> bool:
        """Obey a key, if it says what to look at or scrolls; away from the picture, its keys do nothing."""
        if key in DIGITS and int(key) in seen.here:
            self._show("picture" if self._view == int(key) else int(key))
        elif key == "tab" and isinstance(self._view, int):
            self._show(seen.here[(seen.here.index(self._view) + 1) % len(seen.here)])
        elif key in PAGES:
            self._show("picture" if self._view == PAGES[key] else PAGES[key])
        elif key in LEAVE and self.is_away:
            self._show("picture")
        elif self.screen.scroll(key):
            self._follows = isinstance(self._view, int) and self.screen.at_end
        else:
            return self.is_away and key not in URGENT
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
        keys = [*keys, *self._keys(seen), *rest, HELP]
        body: RenderableType
        below: Sequence[RenderableType] = ()
        match self._view:
            case "picture":
                body, below = picture()
            case "source":
                body, line = source(seen, width)
                below = [Text(LEGEND, style="quiet")]
                if self._follows:
                    self.screen.to_line(line)
            case "tries":
                body = Group(*tries(self._to_try(seen)))
            case "legend":
                body = legend(keys)
            case rank:
                body, below = log(seen, rank, width), [Text(f"rank {rank}", style="head")]
                if self._follows:
                    self.screen.to_end()
        said = f"{notice} · " if notice else ""
        foot = Text.assemble(
            (said, "warn"), key_line(self._keys_away(seen) if self.is_away else keys, width - len(said))
        )
        self.screen.paint(body, Group(*below, foot))

    def _show(self, view: Literal["picture"] | Page | int) -> None:
        self._view, self._follows = view, True
        self.screen.to_top()

    def _keys(self, seen: Seen) -> list[Hotkey]:
        first, last = min(seen.here, default=0), min(max(seen.here, default=0), 9)
        name = f"{first}-{last}" if last > first else f"{first}"
        logs = [Hotkey(name, "log", "all that this rank has printed")] if first <= last else []
        trying = [Hotkey("t", "try", "what to try with this demo, as commands")] if self._to_try(seen) else []
        return [
            *logs,
            Hotkey("v", "source", "the script with a mark for each rank; its explanation is at the top"),
            *trying,
        ]

    def _to_try(self, seen: Seen) -> tuple[Try, ...]:
        """Return what to try; the script is read once a run, and not for every frame."""
        if self._tries is None and seen.began:
            self._tries = to_try(seen.began)
        return self._tries or ()

    def _keys_away(self, seen: Seen) -> list[Hotkey]:
        here = next((key for key, page in PAGES.items() if page == self._view), str(self._view))
        others = [key for key in [*self._keys(seen), HELP] if key.key != here]
        following = [Hotkey("tab", "next rank")] if isinstance(self._view, int) and len(seen.here) > 1 else []
        return [
            Hotkey("esc", "back"),
            *following,
            Hotkey("↑ ↓", "scroll"),
            Hotkey("home", "top"),
            Hotkey("end", "bottom"),
            *others,
        ]
