"""Short texts in columns. General tables cost too much for ten frames a second."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style, StyleType

from ddpquiz.terminal.kit.style import plain

StyledText = tuple[str, StyleType]  # a text and its style, or the name of one
GAP = 2  # blanks between two columns
FOCUS = Style(meta={"focus": True})  # of text that a screen scrolls to
MARK = "*"  # in the gap before a marked cell


class TextLines:
    """Lines that are laid out already; a line wider than the screen is cut off."""

    def __init__(self, lines: Iterable[Sequence[StyledText]]) -> None:
        self.lines = list(lines)

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, part: slice) -> TextLines:
        return TextLines(self.lines[part])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        styles = {name: console.get_style(name, default="") for line in self.lines for _, name in line}
        for line in self.lines:
            left = options.max_width
            for text, name in line:
                shown = text if cell_len(text) <= left else "".join(chop_cells(text, left)[:1]) if left else ""
                left -= cell_len(shown)
                yield Segment(shown, styles[name])
            yield Segment.line()


@dataclass(frozen=True, slots=True)
class Cell:
    """The content of a column: a text that is folded to fit, and below it lines that fit already."""

    text: str
    style: str = ""
    below: tuple[StyledText, ...] = ()
    marked: bool = False

    def lines(self, width: int) -> list[StyledText]:
        """The lines, none wider than `width`."""
        return [*((line, self.style) for line in folded(self.text, width)), *self.below]


@dataclass(slots=True)
class Grid:
    """A row of heads, and rows with a name on the left; a row with a single cell uses the whole width."""

    heads: Sequence[Cell]
    rows: list[tuple[Cell, Sequence[Cell]]] = field(default_factory=list)
    corner: Cell = Cell("")  # above the names

    def drawn(self, names: int, widest: int, narrowest: int = 0) -> TextLines:
        """Lay out the grid: `names` columns for the names, and from `narrowest` to `widest` for each cell."""
        count = len(self.heads)
        across = count * (widest + GAP) - GAP
        rows: list[list[tuple[list[StyledText], bool]]] = []  # the lines of each cell, and whether it is marked
        for name, cells in [(self.corner, self.heads), *self.rows]:
            width = widest if len(cells) == count else across
            rows.append([(name.lines(names), False), *((cell.lines(width), cell.marked) for cell in cells)])
        full = [row for row in rows if len(row) == 1 + count]
        widths = [
            max([narrowest, *(cell_len(text) for row in full for text, _ in row[column][0])])
            for column in range(1, 1 + count)
        ]
        return TextLines(
            _line(row, number, [names, *widths])
            for row in rows
            for number in range(max(len(lines) for lines, _ in row))
        )


def _line(row: list[tuple[list[StyledText], bool]], number: int, widths: list[int]) -> list[StyledText]:
    line: list[StyledText] = []
    for column, ((lines, is_marked), width) in enumerate(
        zip(row, widths, strict=False)
    ):  # a row may have a single cell
        text, style = lines[number] if number < len(lines) else ("", "")
        blanks = " " * (width - cell_len(text))
        if column == 0:
            line.append((text + blanks, style))
            continue
        line += [(" " * (GAP - 1), FOCUS), (MARK, "accent")] if is_marked and not number else [(" " * GAP, "")]
        line += [(text, style or "head" * is_marked), (blanks, "")]
    while line and not line[-1][0].strip():
        line.pop()
    return line


@lru_cache(4096)
def folded(text: str, width: int) -> tuple[str, ...]:
    """Fold a text into lines of at most `width` columns, between words where it can."""
    lines = plain(text).expandtabs(4).split("\n")
    return tuple(part for line in lines for part in _folded(line, max(1, width)))


def _folded(line: str, width: int) -> list[str]:
    columns = cell_len(line)
    if columns <= width:
        return [line]
    if columns == len(line):  # else some characters are two columns wide, or none
        return textwrap.wrap(line, width, break_on_hyphens=False) or [""]
    return chop_cells(line, width)
