"""Short texts in columns. General tables cost too much for ten frames a second."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style

from ddpquiz.terminal.kit.style import plain

Piece = tuple[str, str | Style]  # a text and its style, or the name of one
GAP = 2  # blanks between two columns
MARK = "*"  # in the gap before a cell that has just changed


class TextLines:
    """Lines that are laid out already; those wider than the screen are cut."""

    def __init__(self, lines: Iterable[Sequence[Piece]]) -> None:
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
    below: tuple[Piece, ...] = ()
    marked: bool = False

    def lines(self, width: int) -> list[Piece]:
        """Return the lines, none wider than `width`."""
        return [*((line, self.style) for line in folded(self.text, width)), *self.below]


@dataclass(slots=True)
class Grid:
    """A row of heads, and rows with a name on the left; a row with a single cell uses the whole width."""

    heads: Sequence[Cell]
    rows: list[tuple[Cell, Sequence[Cell]]] = field(default_factory=list)
    corner: Cell = Cell("")  # above the names

    def drawn(self, names: int, widest: int, narrowest: int = 0) -> TextLines:
        """Lay out the grid: `names` columns for the names, and from `narrowest` to `widest` for each cell."""
        across = len(self.heads) * (widest + GAP) - GAP
        rows = [
            (
                name.lines(names),
                [cell.lines(widest if len(cells) == len(self.heads) else across) for cell in cells],
                [cell.marked for cell in cells],
            )
            for name, cells in [(self.corner, self.heads), *self.rows]
        ]
        full = [cells for _, cells, _ in rows if len(cells) == len(self.heads)]
        widths = [
            max([narrowest, *(cell_len(text) for cells in full for text, _ in cells[column])])
            for column in range(len(self.heads))
        ]
        return TextLines(
            _line(number, name, cells, marked, names, widths)
            for name, cells, marked in rows
            for number in range(max(map(len, (name, *cells))))
        )


def _line(
    number: int, name: list[Piece], cells: list[list[Piece]], marked: list[bool], names: int, widths: list[int]
) -> list[Piece]:
    text, style = name[number] if number < len(name) else ("", "")
    line: list[Piece] = [(text + " " * (names - cell_len(text)), style)]
    for cell, is_marked, width in zip(cells, marked, widths, strict=False):  # a row may have a single cell
        text, style = cell[number] if number < len(cell) else ("", "")
        line.append(((MARK if is_marked and not number else " ").rjust(GAP), "accent"))
        line += [(text, style or "head" * is_marked), (" " * (width - cell_len(text)), "")]
    while line and not line[-1][0].strip():
        line.pop()
    return line


@lru_cache(4096)
def folded(text: str, width: int) -> tuple[str, ...]:
    """Fold a text into lines of at most `width` columns, between words where it can."""
    lines = plain(text).expandtabs(4).split("\n")
    return tuple(part for line in lines for part in _folded(line, max(1, width)))


def _folded(line: str, width: int) -> list[str]:
    if cell_len(line) <= width:
        return [line]
    if line.isascii():
        return textwrap.wrap(line, width, break_on_hyphens=False) or [""]
    return chop_cells(line, width)
