"""A full screen that is painted whole, with one write per frame: no flicker, nothing left in the scrollback."""

import contextlib
import math
import os
import sys
from collections.abc import Callable, Iterator
from typing import Self

from rich.console import Console, RenderableType
from rich.segment import Segment, Segments
from rich.text import Text

from ddpquiz.terminal.kit.grid import TextLines
from ddpquiz.terminal.kit.style import plain

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"  # the alternate screen, without a cursor, empty
_LEAVE = "\x1b[?2026l\x1b[0m\x1b[?25h\x1b[?1049l"
_FRAME = "\x1b[?2026h\x1b[H{}\x1b[?2026l"  # the terminal shows what is between them at once
_ERASE = "\x1b[K"
_FEWEST = 8  # lines of a screenful that counts as a page
_STEPS = {"up": -1, "down": 1, "home": -1_000_000, "end": 1_000_000}


def is_interactive() -> bool:
    """Whether a person uses a terminal that can be painted; otherwise, questions would get no answer."""
    ends = (sys.stdin, sys.stdout)  # None if the command was started with one of them closed
    can_be_painted = os.environ.get("TERM", "dumb") not in {"", "dumb", "unknown"}
    return can_be_painted and all(end is not None and end.isatty() for end in ends)


class Screen:
    """The alternate screen, from the first `paint` to the end of the `with`: a body that scrolls above a fixed foot."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.is_open = False  # the alternate screen is shown
        self.scrolled = False  # the user has scrolled since the last `to_top`
        self._top = 0  # the first line of the body on the screen
        self._beyond = 0  # the largest `_top`
        self._page = 1  # lines of the body that fit
        self._length = 0  # lines of the body
        self._seeks = False  # the next `paint` scrolls to the text in focus

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # the terminal may be gone
            self._close()

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Show the terminal as it was before; what was painted must be painted again afterwards."""
        was_open = self.is_open
        self._close()
        try:
            yield
        finally:
            if was_open:
                self.open()

    def open(self) -> None:
        """Show the alternate screen, empty, before there is anything to paint."""
        if not self.is_open:
            self.is_open = True
            self._write(_ENTER)

    def _close(self) -> None:
        if self.is_open:
            self.is_open = False
            self._write(_LEAVE)

    def paint(
        self,
        body: RenderableType,
        foot: RenderableType | Callable[[bool], RenderableType] | None = None,
        *,
        turns: bool = True,
        arrows: bool = True,
    ) -> None:
        """Show a frame; if the body is too tall, a line above the foot says how much of it is hidden.

        A foot may be drawn anew, in as many lines, if there is more of the body below. `turns` says whether a key
        shows the next screenful, so that it helps to name the page; `arrows`, whether ↑ and ↓ scroll.
        """
        self.open()
        width, height = self.console.size
        first = foot(False) if callable(foot) else foot
        tail = self._lines(first, width)[:height] if first is not None else []
        whole = body if isinstance(body, TextLines) else self._lines(body, width)
        self._page = max(1, height - len(tail))
        if isinstance(whole, list):
            while len(whole) > self._page and not "".join(part.text for part in whole[-1]).strip():
                whole.pop()  # nobody should scroll to an empty line
        if len(whole) > self._page:
            self._page = max(1, self._page - 1)  # for the line that says how much is hidden
        stays_at_end = self._top and self.at_end and len(whole) == self._length  # also above a foot that has grown
        self._beyond, self._length = max(0, len(whole) - self._page), len(whole)
        if stays_at_end:
            self.to_end()
        if self._seeks and not isinstance(whole, TextLines):
            self._show_focus(whole)
        self._top = min(max(0, self._top), self._beyond)
        part = whole[self._top : self._top + self._page]  # before drawing: drawing all of a log would take long
        shown = self._lines(part, width) if isinstance(part, TextLines) else part
        if callable(foot) and not self.at_end:
            tail = self._lines(foot(True), width)[:height]
        if self._beyond:
            tail = [*self._lines(self._hidden(turns=turns, arrows=arrows), width), *tail]
        shown += [[] for _ in range(height - len(shown) - len(tail))]
        self._write(_FRAME.format(self._encode([*shown, *tail][:height], width)))

    @staticmethod
    def pages(rows: int, height: int) -> int:
        """How many screenfuls so many rows are, on a screen of this height whose last row names the keys."""
        room = height - 1
        return 1 if rows <= room else 1 + math.ceil((rows - room + 1) / max(1, room - 2))

    def scroll(self, key: str) -> bool:
        """Scroll by a key, which the next `paint` shows; return False if the key does not scroll."""
        pages = {"pageup": -1, "pagedown": 1}
        step = _STEPS.get(key, pages.get(key, 0) * max(1, self._page - 1))
        if not step or not self._beyond:
            return False
        self._top = min(max(0, self._top + step), self._beyond)
        self.scrolled = True
        return True

    def to_top(self) -> None:
        """Show the next body from its first line."""
        self._top, self.scrolled = 0, False

    @property
    def place(self) -> tuple[int, bool]:
        """Where the body is scrolled to, for `to_place`."""
        return self._top, self.scrolled

    def to_place(self, place: tuple[int, bool]) -> None:
        """Show the next body where it was scrolled to."""
        self._top, self.scrolled = place

    def to_end(self) -> None:
        """Show the next body up to its last line."""
        self._top = _STEPS["end"]

    def to_line(self, number: int) -> None:
        """Show the next body with its `number`-th line, from 0, in the middle."""
        self._top = number - self._page // 2

    def to_focus(self) -> None:
        """Scroll the next body just so far that its text with the style FOCUS is on the screen."""
        self._seeks = True

    def _show_focus(self, lines: list[list[Segment]]) -> None:
        self._seeks = False
        focused = [number for number, line in enumerate(lines) if any(part.style and part.style.meta for part in line)]
        if focused:  # with a line around it; where not all of it fits, its end
            self._top = max(min(self._top, max(0, focused[0] - 1)), focused[-1] + 2 - self._page)

    @property
    def at_end(self) -> bool:
        return self._top >= self._beyond

    def _hidden(self, *, turns: bool, arrows: bool) -> Text:
        above, below = self._top, self._beyond - self._top
        parts = [f"{count} more {where}" for count, where in ((above, "above"), (below, "below")) if count]
        step = max(1, self._page - 1)
        pages = 1 + math.ceil(self._beyond / step)
        is_long = turns and pages > 2 and step >= _FEWEST
        of = [f"page {1 + math.ceil(above / step)} of {pages}"] if is_long else []
        back = ["page up: back"] if is_long and above else []
        scroll = "↑ ↓ scroll" if arrows else "page up, page down: scroll"
        return Text(
            " · ".join([*of, *parts, scroll, *(back * arrows)]), style="italic", no_wrap=True, overflow="ellipsis"
        )

    def _lines(self, shown: RenderableType, width: int) -> list[list[Segment]]:
        options = self.console.options.update(width=width, height=None)
        return self.console.render_lines(shown, options, pad=False)

    def _encode(self, lines: list[list[Segment]], width: int) -> str:
        erase = Segment(_ERASE, None, [])  # an empty list of control codes: rich writes the text unchanged
        out: list[Segment] = []
        for number, line in enumerate(lines):
            if number:
                out.append(Segment("\r\n", None, []))
            out += [Segment(plain(part.text), part.style) for part in line]
            if Segment.get_line_length(line) < width:  # in the last column it would erase the last letter
                out.append(erase)
        with self.console.capture() as captured:
            self.console.print(Segments(out), end="", soft_wrap=True)
        return captured.get()

    def _write(self, text: str) -> None:
        self.console.file.write(text)
        self.console.file.flush()
