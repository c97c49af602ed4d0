"""The values of a run: a column for each rank and a row for each label, and numbers over time as curves.

A curve is a line of bars in a rank's column, or a chart of all ranks where there is room.
"""

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import TypeVar

from rich.cells import cell_len

from ddpquiz.events.formatting import format_ranks
from ddpquiz.events.run_frame import DIGITS, DONE, LabeledValue, RankColumn, RunFrame, has_numbers, shortened
from ddpquiz.events.run_state import LINES
from ddpquiz.terminal.kit.grid import GAP, MARK, Cell, Grid, StyledText, TextLines
from ddpquiz.terminal.kit.style import plain

_COLUMN = 10  # the least width of a rank's column; where there is less, ranks are stacked in groups
_APART = 24  # the width of a column of short values in a live view, so that columns do not jump
_CHART = 72  # columns of a chart, at most
_PICTURE = re.compile(r"(?=.*\.)(?=.*[A-Za-z])[A-Za-z.]{8,}")
_NOTHING = Cell("-", "quiet")
_NAMED = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, kw_only=True, slots=True)
class ValueView:
    """How values are drawn: on `width` columns, for a run that goes on if `live`.

    With `tensors`, also the input and the output of each rank's last operation. Labels that `look` names stay in sight.
    """

    width: int
    live: bool = False
    tensors: bool = False
    look: str = ""


@dataclass(frozen=True, slots=True)
class _Columns:
    """Ranks that are drawn beside each other, and the most characters that each has room for."""

    ranks: Sequence[int]
    width: int


def tables(
    shown: RunFrame, view: ValueView, *, rows: int | None = None, plotted: Collection[str] = ()
) -> list[TextLines]:
    """Draw the values of all ranks, as many ranks beside each other as fit.

    Only the newest `rows` labels are shown; those that are `plotted` elsewhere get no bars.
    """
    labels = list(shown.values) if rows is None else _newest(shown, rows, view)
    names = max(map(cell_len, [f"rank {max(shown.ranks, default=0)}", *labels]))
    names = min(max(names, 8) if view.live else names, view.width // 3)
    fit = max(1, (view.width - names) // (_COLUMN + GAP))
    groups = math.ceil(len(shown.columns) / fit)
    count = math.ceil(len(shown.columns) / max(1, groups))
    widest = (view.width - names) // max(1, count) - GAP
    drawn: list[TextLines] = []
    for start in range(0, len(shown.columns), max(1, count)):
        ranks = shown.columns[start : start + count]
        columns = _Columns([column.rank for column in ranks], widest)
        grid = Grid([Cell(f"rank {rank}", "head") for rank in columns.ranks])
        if view.live:
            doing = [Cell(_cut(plain(column.doing), widest), "quiet") for column in ranks]
            grid.rows.append((Cell("doing", "quiet"), doing))
        if view.tensors:
            grid.rows += _operation_rows(ranks, widest)
        for label in labels:
            cells = _cells(shown.values[label], columns, bars=label not in plotted)
            grid.rows += _rows(Cell(label, "head"), cells, columns)
        if any(cell.marked for _, cells in grid.rows for cell in cells):
            grid.corner = Cell(f"{MARK} new", "accent")
        drawn.append(grid.drawn(names, widest, narrowest=min(widest, _APART) if view.live else 0))
    return drawn


def to_plot(shown: RunFrame, width: int, most: int = 3) -> dict[str, dict[int, list[float]]]:
    """The numbers that are worth a chart, by label and rank, for as many labels as fit beside each other."""
    series: dict[str, dict[int, list[float]]] = {}
    for label, row in shown.values.items():
        if _count(row) < _FEWEST:
            continue
        numbers = {rank: _numbers_in(value.values) for rank, value in row.items()}
        if max(map(len, numbers.values())) >= _FEWEST and any(map(_bends, numbers.values())):
            series[label] = {rank: each for rank, each in numbers.items() if each}
    longest = sorted(series, key=lambda label: -_count(shown.values[label]))
    return {label: series[label] for label in longest[: max(1, min(most, width // _NARROWEST))]}


def charts(shown: RunFrame, series: dict[str, dict[int, list[float]]], width: int) -> TextLines:
    """Draw a chart for each label, beside each other."""
    width = min(width // max(1, len(series)), _CHART)
    drawn = [_chart(label, series[label], _span(_count(shown.values[label])), width - GAP) for label in series]
    return TextLines(_beside([lines for lines in drawn if lines], width))


def _count(row: dict[int, LabeledValue]) -> int:
    return max((len(value.values) for value in row.values()), default=0)


def _span(count: int) -> str:
    return f"value 1 to {count}" if count < LINES else f"the last {count} values"


def _newest(shown: RunFrame, rows: int, view: ValueView) -> list[str]:
    """Some labels in the order of their first values.

    In a run that is stepped through, those with a new value come first; then those that the learner is told to look at,
    those that the script's docstring names, and the newest.
    """
    named = shown.began.highlighted if shown.began else ()
    looked_at = tuple(_NAMED.findall(view.look))

    def weight(label: str) -> tuple[bool, bool, bool, float]:
        values = shown.values[label].values()
        is_new = view.tensors and any(value.is_new for value in values)
        return is_new, label.startswith(looked_at), label in named, max((value.time for value in values), default=0.0)

    by_age = sorted(shown.values, key=weight)
    newest = set(by_age[len(by_age) - rows :])
    return [label for label in shown.values if label in newest]


def _cells(row: dict[int, LabeledValue], columns: _Columns, *, bars: bool) -> list[Cell]:
    """The last value of each rank, with bars for all its values, on one scale for all ranks."""
    numbers = {rank: _numbers_in(value.values) for rank, value in row.items()} if bars else {}
    low, high = scale(numbers.values())
    cells = []
    for rank in columns.ranks:
        value, series = row.get(rank), numbers.get(rank, [])
        below = ((sparkline(series, min(columns.width, 16), low, high), "accent"),) if _bends(series) else ()
        cells.append(Cell(value.text, "", below, value.is_new) if value else _NOTHING)
    return cells


def _rows(name: Cell, cells: list[Cell], columns: _Columns) -> list[tuple[Cell, Sequence[Cell]]]:
    """Lay out a label: a column a rank; what does not fit goes right across, once if all values are the same."""
    stacked = _are_pictures([cell.text for cell in cells if cell is not _NOTHING])
    if not stacked and all(cell_len(cell.text) <= columns.width for cell in cells):
        return [(name, cells)]
    if len({cell.text for cell in cells}) == 1:
        return [(name, [replace(cells[0], text=f"{cells[0].text} · {format_ranks(columns.ranks)}")])]
    if not stacked and all(cell_len(word) <= columns.width for cell in cells for word in cell.text.split()):
        return [(name, cells)]
    return [
        (name, [Cell("")]),
        *((Cell(f"rank {rank}", "quiet"), [cell]) for rank, cell in zip(columns.ranks, cells, strict=True)),
    ]


def _are_pictures(texts: list[str]) -> bool:
    """Whether the values of a label are drawn with a character for each time slot, and so belong below each other.

    They are if each is one word of eight or more letters and dots, with at least one of both, all are equally long, and
    not all are the same: `FF..BB..` on one rank and `.FFFBBB.` on another.
    """
    return len(set(texts)) > 1 and len(set(map(len, texts))) == 1 and all(_PICTURE.fullmatch(text) for text in texts)


def _operation_rows(ranks: Sequence[RankColumn], width: int) -> list[tuple[Cell, Sequence[Cell]]]:
    """Lay out the input and the output of each rank's last operation, with as many digits everywhere as have room."""
    texts = [column.input for column in ranks] + [column.output for column in ranks]
    numbers = [text for text in texts if text and has_numbers(text)]
    fits = (digits for digits in DIGITS if all(len(shortened(plain(text), digits)) <= width for text in numbers))
    digits = next(fits, DIGITS[-1])
    cells = [_tensor(text, digits, width) for text in texts]
    return [(Cell("input", "head"), cells[: len(ranks)]), (Cell("output", "head"), cells[len(ranks) :])]


def _tensor(text: str | None, digits: int, width: int) -> Cell:
    if text is None:
        return _NOTHING
    return Cell(_cut(shortened(plain(text), digits), width), "quiet" if text == DONE else "code")


def _cut(text: str, width: int) -> str:
    """Cut a text to a width, between words where that leaves some."""
    if len(text) <= width:
        return text
    start = text[: max(0, width - 2)]
    words = start if text[len(start)] == " " else start.rpartition(" ")[0]
    return f"{(words or start).rstrip(' |;')}.."


# Curves

_BARS = "▁▂▃▄▅▆▇█"
_QUARTERS = " ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"  # bit 1 is the upper left quarter of a character, 2 the upper right, 4 and 8 the lower
_COLORS = ("accent", "warn", "good", "code", "quiet")  # all but the one for errors
_HEIGHT = 6  # lines of a chart, without its title and its axis
_NARROWEST = 44  # columns of a chart
_MOST = 144  # numbers in a curve: two for each column of the widest chart
_NAMES = 14  # columns beside a chart for the names of ranks, at most
_FEWEST = 8  # numbers in a chart; a line of bars needs three

_Item = TypeVar("_Item")


def _numbers_in(values: Sequence[str]) -> list[float]:
    """The values as numbers, at most _MOST of them; an empty list if one is not a number."""
    try:
        return [float(value) for value in _thinned(values, _MOST)]
    except ValueError:
        return []


def _bends(numbers: Sequence[float]) -> bool:
    """Whether a curve shows more than its first and last number; that of a counter does not."""
    if len(numbers) < 3:
        return False
    if not all(map(math.isfinite, numbers)):
        return True
    steps = [after - before for before, after in pairwise(numbers)]
    return max(steps) - min(steps) > 1e-9 * max(map(abs, numbers))


def scale(several: Iterable[Sequence[float]]) -> tuple[float, float]:
    """The ends of a scale for several series: it starts at 0, or at the lowest number if that is negative."""
    finite = [number for numbers in several for number in numbers if math.isfinite(number)]
    return min([0.0, *finite]), max([0.0, *finite])


def sparkline(numbers: Sequence[float], width: int, low: float, high: float) -> str:
    """Draw numbers as a line of bars between the ends of a scale, the oldest first.

    Where several numbers share a bar, it shows the one farthest from the mean, so that no peak and no dip is lost.
    """
    span = (high - low) or 1.0
    numbers = _extremes(numbers, width)
    return "".join(_BARS[int((n - low) / span * 7.999)] if math.isfinite(n) else "!" for n in numbers)


def _thinned(numbers: Sequence[_Item], most: int) -> Sequence[_Item]:
    """At most `most` items at even distances, with the first and the last one."""
    if len(numbers) <= most:
        return numbers
    return [numbers[at * (len(numbers) - 1) // max(1, most - 1)] for at in range(most)]


def _extremes(numbers: Sequence[float], most: int) -> Sequence[float]:
    """At most `most` numbers: of neighbors the one that is not finite or is farthest from the mean of all."""
    if len(numbers) <= most:
        return numbers
    finite = [number for number in numbers if math.isfinite(number)]
    middle = sum(finite) / max(1, len(finite))
    ends = [at * len(numbers) // most for at in range(most + 1)]
    shares = (numbers[start:end] for start, end in pairwise(ends))
    return [max(share, key=lambda each: abs(each - middle) if math.isfinite(each) else math.inf) for share in shares]


def _chart(title: str, series: dict[int, list[float]], span: str, width: int) -> list[list[StyledText]]:
    """Draw the numbers of several ranks, each curve up to its rank's name; `span` is the text below the axis."""
    finite = [number for numbers in series.values() for number in numbers if math.isfinite(number)]
    if not finite:
        return []
    low, high = min(finite), max(finite)
    ends = [f"{high:.4g}", f"{low:.4g}"] if high > low else [f"{high:.4g}", ""]
    left = max(map(len, ends))
    columns = width - left - 2 - min(_NAMES, 1 + len(format_ranks(series)))
    canvas = _Canvas(columns, _HEIGHT)
    last: dict[int, list[int]] = {}
    for rank, numbers in reversed(series.items()):  # the first rank lies on top
        row = canvas.draw(numbers, low, (high - low) or 1.0, _COLORS[rank % len(_COLORS)])
        last.setdefault(row, []).append(rank)
    lines: list[list[StyledText]] = [[(" " * left + "  ", ""), (title, "head")]]
    for row in range(_HEIGHT):
        value = ends[0] if row == 0 else ends[1] if row == _HEIGHT - 1 else ""
        tick = "┤" if value else "│"
        line = [(f"{value:>{left}} {tick}", "quiet"), *canvas.row(row)]
        lines.append([*line, (f" {format_ranks(last[row])}" if row in last else "", "quiet")])
    lines.append([(f"{' ' * left} └{f' {span}'.rjust(columns, '─')}", "quiet")])
    return lines


def _beside(charts: Sequence[list[list[StyledText]]], width: int) -> list[list[StyledText]]:
    """Lay out charts of the same height beside each other, each `width` columns wide."""
    lines: list[list[StyledText]] = []
    for row in zip(*charts, strict=True):
        line: list[StyledText] = []
        for number, part in enumerate(row, 1):
            blank = width - sum(cell_len(text) for text, _ in part)
            line += [*part, *([(" " * blank, "")] if number < len(row) else [])]
        lines.append(line)
    return lines


class _Canvas:
    """A grid of characters, each of which has four quarters."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.bits = [[0] * width for _ in range(height)]
        self.styles = [[""] * width for _ in range(height)]

    def draw(self, numbers: Sequence[float], low: float, span: float, style: str) -> int:
        """Draw a line through the numbers, and return the row in which it ends."""
        points, before, at = _thinned(numbers, 2 * self.width), None, 0
        stretch = (2 * self.width - 1) / max(1, len(points) - 1)
        for number, value in enumerate(points):
            if not math.isfinite(value):
                before = None
                continue
            x, y = round(number * stretch), round((1 - (value - low) / span) * (2 * self.height - 1))
            at = y
            if before is None:
                self._dot(x, y, style)
            else:
                self._line(*before, x, y, style)
            before = x, y
        return at // 2

    def row(self, row: int) -> list[StyledText]:
        runs = groupby(zip(self.bits[row], self.styles[row], strict=True), key=lambda cell: cell[1])
        return [("".join(_QUARTERS[bits] for bits, _ in run), style) for style, run in runs]

    def _line(self, x0: int, y0: int, x1: int, y1: int, style: str) -> None:
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for step in range(steps + 1):
            self._dot(x0 + round((x1 - x0) * step / steps), y0 + round((y1 - y0) * step / steps), style)

    def _dot(self, x: int, y: int, style: str) -> None:
        self.bits[y // 2][x // 2] |= 1 << (x % 2 + 2 * (y % 2))
        self.styles[y // 2][x // 2] = style
