"""Parts of a page, such as sections, columns, tables and bars, and how a page is printed (`show`).

pager.py prints a page through the user's pager if it is longer than the terminal.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment, Segments
from rich.text import Text

from ddpquiz.safe_text import one_line
from ddpquiz.terminal.kit.style import code, plain

if TYPE_CHECKING:
    from rich.table import Table

MEASURE = 100  # columns; longer lines of prose are hard to read
_LEAST = 16  # columns that a description to the right of a command needs, or a column of words in a table
_LINES = 2  # of a question that remain if there is no room; on a higher screen a sixth of it


def show(console: Console, page: RenderableType) -> None:
    """Print a page into the scrollback, at a readable width and without trailing blanks."""
    options = console.options.update(width=min(console.width, MEASURE))
    lines = console.render_lines(page, options, pad=False)
    console.print(Segments(part for line in lines for part in (*_stripped(line), Segment.line())), soft_wrap=True)


def header(*parts: str) -> Text:
    """Draw where one is, in one line; empty parts are left out."""
    return Text(plain(" · ".join(part for part in parts if part)), style="accent")


def section(title: str, *body: RenderableType) -> list[RenderableType]:
    """Put a title above parts, which are indented."""
    return [Text(), Text(title, style="title"), *(indented(part) for part in body)]


def indented(part: RenderableType, by: int = 2) -> Padding:
    """Indent a part by some columns."""
    return Padding(part, (0, 0, 0, by))


def spaced(parts: Iterable[RenderableType]) -> list[RenderableType]:
    """Put an empty line between parts."""
    return [line for part in parts for line in (Text(), part)][1:]


def columns(rows: Iterable[Sequence[RenderableType]], gap: int = 2) -> Table:
    """Line up short words on the left with their descriptions on the right; a long word may be `Shortened`."""
    from rich.table import Table  # it brings fractions and decimal, for which no first screen waits

    grid = Table.grid(padding=(0, gap, 0, 0))
    for row in rows:
        if not grid.columns:
            for number, cell in enumerate(row, 1):
                grid.add_column(no_wrap=number < len(row) and not isinstance(cell, Shortened), overflow="fold")
        grid.add_row(*row)
    return grid


def new_table(heads: Sequence[str], *, left: Collection[int] = (0,), style: str = "quiet", gap: int = 2) -> Table:
    """A table without rows: words stand and wrap in the columns `left`, and numbers at the right of the others.

    A number that has no room ends in an ellipsis, since its start would read as another number. `style` is that of the
    heads, and `gap` the blanks between columns.
    """
    from rich.table import Table

    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style=style)
    for number, head in enumerate(heads):
        if number in left:
            table.add_column(head, overflow="fold")
        else:
            table.add_column(head, justify="right", no_wrap=True)
    return table


@dataclass(frozen=True, slots=True)
class Narrowing:
    """A table that gives up blanks, and then the columns `spare` in this order, until numbers and words have room."""

    table: Table
    spare: Sequence[int] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table, given_up = copy(self.table), 0
        while _needed_width(console, options, table) > options.max_width and given_up <= len(self.spare):
            table.padding = (0, 1, 0, 0)
            gone = self.spare[:given_up]
            kept = (column for number, column in enumerate(self.table.columns) if number not in gone)
            table.columns = [replace(column, _index=number) for number, column in enumerate(kept)]
            given_up += 1
        yield table


def _needed_width(console: Console, options: ConsoleOptions, table: Table) -> int:
    """The columns in which a table shows its numbers whole, and its words without a line for every few letters."""
    endless, needed = options.update(width=1000), table.padding[1] * (len(table.columns) - 1)
    for column in table.columns:
        cells = (column.header, *column.cells)
        widest = max(Measurement.get(console, endless, cell).maximum for cell in cells)
        needed += widest if column.no_wrap else min(widest, _LEAST)
    return needed


@dataclass(frozen=True, slots=True)
class Shortened:
    """A text of one line. Where it has no room, it loses its middle, so that at least its last `keep` letters stay."""

    text: str
    keep: int = 8
    style: str = ""

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        text, room = self.text, options.max_width
        if len(text) > room:
            end = min(max(self.keep, room // 2), room - 1)
            text = f"{text[: room - 1 - end]}…{text[-end:]}"
        yield Text(text, style=self.style, no_wrap=True)

    def __rich_measure__(self, _: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(2 * self.keep, len(self.text)), len(self.text)).with_maximum(options.max_width)


@dataclass(frozen=True, slots=True)
class Commands:
    """Commands with their descriptions: to their right if all fit there, otherwise below them."""

    rows: Sequence[tuple[str, str]]

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        named = [(code(command, "code"), Text(what)) for command, what in self.rows]
        if all(len(command) + 2 + min(len(what), _LEAST) <= options.max_width for command, what in named):
            yield columns(named)
            return
        for command, what in named:
            yield command
            yield indented(what)


def bullets(lines: Iterable[Text]) -> Table:
    """Put a bullet before each line."""
    return columns(((Text("•", style="quiet"), line) for line in lines), gap=1)


def numbered(lines: Iterable[Text]) -> Table:
    """Number the lines."""
    return columns(((Text(f"{number}.", style="quiet"), line) for number, line in enumerate(lines, 1)), gap=1)


def shown_path(file: str | Path) -> str:
    """A path relative to the current folder if it lies there, in one line."""
    path = Path(file)
    with suppress(ValueError):
        path = path.resolve().relative_to(Path.cwd())
    return one_line(str(path))


def shown_torchrun() -> str:
    """The command that starts torchrun in this shell: its name, or its path if its environment is not active."""
    beside = Path(sys.executable).with_name("torchrun")
    return "torchrun" if shutil.which("torchrun") or not beside.exists() else shlex.quote(shown_path(beside))


def _stripped(line: list[Segment]) -> list[Segment]:
    """Remove trailing blanks; no style here makes a blank visible."""
    line = list(line)
    while line and not line[-1].text.rstrip(" "):
        line.pop()
    if line:
        text, style, control = line.pop()
        line.append(Segment(text.rstrip(" "), style, control))
    return line


@dataclass(frozen=True, slots=True)
class Barred:
    """A part with a bar at its left."""

    body: RenderableType
    style: str = "accent"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        bar = Segment("│ ", console.get_style(self.style, default=""))
        for line in console.render_lines(self.body, options.update(width=options.max_width - 2), pad=False):
            yield bar
            yield from line
            yield Segment.line()


@dataclass(frozen=True, slots=True)
class Brief:
    """The first lines of a text, or the last ones; an ellipsis stands where there are more."""

    text: Text
    lines: int = _LINES
    last: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = options.update(width=options.max_width - 2, height=None)
        lines = console.render_lines(self.text, room, pad=False)
        cut, shown = len(lines) > self.lines, lines[-self.lines :] if self.last else lines[: self.lines]
        for number, line in enumerate(shown, 1):
            before = [Segment("… ")] if cut and self.last and number == 1 else []
            after = [Segment("…")] if cut and not self.last and number == self.lines else []
            yield Segments([*before, *line, *after, Segment.line()])


@dataclass(frozen=True, slots=True)
class Folded:
    """A question and its answer.

    If both do not fit, what is below the question, such as code, comes last. Of a long question only the first lines
    stand above, and all of it comes last.

    `around` draws everything else on the screen, for a width; `above` is the number of empty lines if there is room.
    """

    question: Text
    more: Sequence[RenderableType]
    answer: Sequence[RenderableType]
    _: KW_ONLY
    title: str
    around: Callable[[int], RenderableType]
    above: int = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        endless = options.update(height=None)
        whole = Group(*[Text()] * self.above, self.question, *self.more, *self.answer)
        left = console.height - len(console.render_lines(self.around(console.width), endless, pad=False))
        if len(console.render_lines(whole, endless, pad=False)) <= left:
            yield whole
            return
        left -= len(console.render_lines(Group(*self.answer), endless, pad=False))
        lines = console.render_lines(self.question, endless.update(width=options.max_width - 2), pad=False)
        if len(lines) <= max(console.height // 3, left):
            yield Group(self.question, *self.answer)
            if len(self.more) > 1:
                yield Group(*section(self.title, *self.more))
            return
        yield Group(Brief(self.question, max(_LINES, console.height // 6)), *self.answer)
        yield Group(*section(self.title, self.question, *self.more))
