"""A run on a screen that keys control: its picture, or instead a log, the script, or what to try next."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Literal

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.terminal.kit.hotkeys import BACK, GOES_BACK, HELP, Hotkey, key_line
from ddpquiz.terminal.kit.key_screen import KeyScreen
from ddpquiz.terminal.runs.run_pages import legend, log
from ddpquiz.terminal.runs.source import LEGEND, source
from ddpquiz.terminal.runs.suggestions import Suggestion, suggestions, tries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ddpquiz.analysis.run_state import RunState
    from ddpquiz.terminal.kit.screen import Screen

Page = Literal["picture", "source", "tries"]
PAGES: dict[str, Page] = {"v": "source", "t": "tries"}
DIGITS = "0123456789"


class RunScreen(KeyScreen):
    """The picture of a run, and pages that keys open instead. Subclasses say what the picture is."""

    can_start = False  # whether a suggestion can be started from here

    def __init__(self, screen: Screen) -> None:
        super().__init__()
        self.screen = screen
        self.chosen: Suggestion | None = None  # the run to start next
        self._page: Page | int = "picture"  # or the rank whose log is shown
        self._found: tuple[Suggestion, ...] | None = None  # what the script suggests, once the script is known

    @property
    @abstractmethod
    def state(self) -> RunState:
        """The state of the run that is shown."""

    @abstractmethod
    def picture(self) -> tuple[RenderableType, Sequence[RenderableType]]:
        """Draw the run, and lines that stay below it."""

    @abstractmethod
    def picture_keys(self) -> list[Hotkey]:
        """Return the keys that work on the picture only, the most needed first."""

    def end_with_choice(self) -> None:
        """End this screen, because the user chose another run to start."""
        self.left = True

    def seldom_keys(self) -> tuple[Hotkey, ...]:
        """Return keys that are named after all others, where there is room."""
        return ()

    @property
    def on_picture(self) -> bool:
        """Whether the picture is shown."""
        return self._page == "picture" and not self.helping

    @property
    def reading(self) -> bool:
        """Whether a page is shown instead of the picture."""
        return not self.on_picture

    def body(self) -> RenderableType:
        """Draw what scrolls; `paint` draws it together with what stays below."""
        return self._parts()[0]

    def keys(self) -> list[Hotkey]:
        """Return the keys that work on the picture."""
        return [*self.picture_keys(), *self._page_keys(), *self.seldom_keys(), HELP]

    def help(self) -> RenderableType:
        """Draw the keys, and what all signs of a run mean."""
        return legend(self.keys())

    def handle_key(self, key: str) -> None:
        """Obey a key: those that open a page work everywhere, those of the picture only there.

        Digits open logs, except where suggestions are listed: there they start the suggestion of that number.
        """
        here = self.state.here
        if key in DIGITS and self._page == "tries" and self.can_start and not self.helping:
            self.chosen = dict(enumerate(self._suggestions(), 1)).get(int(key))
            if self.chosen:
                self.end_with_choice()
        elif key in DIGITS and int(key) in here:
            self._open(int(key))
        elif key == "tab" and isinstance(self._page, int):
            self._open(here[(here.index(self._page) + 1) % len(here)])
        elif key in PAGES:
            self._open(PAGES[key])
        elif self.on_picture or self.helping or key == HELP.key:
            super().handle_key(key)
        elif key in GOES_BACK:
            self._open("picture")

    def paint(self, screen: Screen) -> None:
        """Draw the picture or a page, what stays below it, a remark, and the keys that work."""
        body, below = self._parts()
        remark = f"{self.note} · " if self.note else ""
        keys = self.keys() if self.on_picture else self._keys_of_page()
        foot = Text.assemble((remark, "warn"), key_line(keys, screen.console.width - len(remark)))
        screen.paint(body, Group(*below, foot))

    def _parts(self) -> tuple[RenderableType, Sequence[RenderableType]]:
        width = self.screen.console.width
        if self.helping:
            return self.help(), ()
        match self._page:
            case "picture":
                return self.picture()
            case "source":
                text, line = source(self.state, width)
                if not self.screen.scrolled:  # else it would follow the ranks
                    self.screen.to_line(line)
                return text, [Text(LEGEND, style="quiet")]
            case "tries":
                return Group(*tries(self._suggestions(), numbered=self.can_start)), ()
            case rank:
                if not self.screen.scrolled or self.screen.at_end:
                    self.screen.to_end()
                return log(self.state, rank, width), [Text(f"rank {rank}", style="head")]

    def _open(self, page: Page | int) -> None:
        """Open a page, or go back from it with the key that opened it."""
        self._page = "picture" if page == self._page and not self.helping else page
        self.helping = False
        self.screen.to_top()

    def _page_keys(self) -> list[Hotkey]:
        """Return the keys that open pages."""
        here = [rank for rank in self.state.here if rank < len(DIGITS)]
        name = f"{here[0]}-{here[-1]}" if len(here) > 1 else "".join(map(str, here))
        logs = [Hotkey(name, "log", "all lines that this rank printed")] if here else []
        trying = [Hotkey("t", "try", "what to try with this script, as commands")] if self._suggestions() else []
        return [
            *logs,
            Hotkey("v", "source", "the script with a mark for each rank; its explanation is at the top"),
            *trying,
        ]

    def _keys_of_page(self) -> list[Hotkey]:
        """Return the keys that work on a page."""
        opened_by = HELP.key if self.helping else next((key for key, page in PAGES.items() if page == self._page), "")
        pages = [key for key in [*self._page_keys(), HELP] if key.key != opened_by]
        scrolling = [Hotkey("↑ ↓", "scroll"), Hotkey("home", "top"), Hotkey("end", "bottom")]
        if self._page == "tries" and self.can_start and not self.helping:
            last = min(len(self._suggestions()), 9)
            start = Hotkey(f"1-{last}" if last > 1 else "1", "start")
            return [start, BACK, *scrolling, *(key for key in pages if key.does != "log")]
        is_log = isinstance(self._page, int) and not self.helping and len(self.state.here) > 1
        return [BACK, *([Hotkey("tab", "next rank")] if is_log else []), *scrolling, *pages]

    def _suggestions(self) -> tuple[Suggestion, ...]:
        """Return what the script suggests; it is read once a run, and not for every frame."""
        if self._found is None and self.state.began:
            self._found = suggestions(self.state.began)
        return self._found or ()
