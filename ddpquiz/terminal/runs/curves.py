"""Numbers over time, as curves: a line of bars in a rank's column, and a chart of all ranks where there is room."""

import math
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from typing import TypeVar

from rich.cells import cell_len

from ddpquiz.analysis.formatting import format_ranks
from ddpquiz.terminal.kit.grid import Piece

BARS = "▁▂▃▄▅▆▇█"
QUARTERS = " ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"  # bit 1 is the upper left quarter of a character, 2 the upper right, 4 and 8 the lower
COLOURS = ("accent", "warn", "good", "code", "quiet")  # all but the one for errors
HEIGHT = 6  # lines of a chart, without its title and its axis
NARROWEST = 44  # columns of a chart
MOST = 144  # numbers in a curve: two for each column of the widest chart
NAMES = 14  # columns beside a chart for the names of ranks, at most
FEWEST = 8  # numbers in a chart; a line of bars needs three

_Item = TypeVar("_Item")


def numbers_in(values: Sequence[str]) -> list[float]:
    """Return the values as numbers, at most MOST of them; an empty list if one is not a number."""
    try:
        return [float(value) for value in thinned(values, MOST)]
    except ValueError:
        return []


def bends(numbers: Sequence[float]) -> bool:
    """Whether a curve shows more than its first and last number; that of a counter does not."""
    if len(numbers) < 3:
        return False
    if not all(map(math.isfinite, numbers)):
        return True
    steps = [after - before for before, after in pairwise(numbers)]
    return max(steps) - min(steps) > 1e-9 * max(map(abs, numbers))


def scale(several: Iterable[Sequence[float]]) -> tuple[float, float]:
    """Return the ends of a scale for several series: it starts at 0, or at the lowest number if that is negative."""
    finite = [number for numbers in several for number in numbers if math.isfinite(number)]
    return min([0.0, *finite]), max([0.0, *finite])


def sparkline(numbers: Sequence[float], width: int, low: float, high: float) -> str:
    """Draw numbers as a line of bars between the ends of a scale, the oldest first.

    Where several numbers share a bar, it shows the one farthest from the mean, so that no peak and no dip is lost.
    """
    span = (high - low) or 1.0
    numbers = extremes(numbers, width)
    return "".join(BARS[int((n - low) / span * 7.999)] if math.isfinite(n) else "!" for n in numbers)


def thinned(numbers: Sequence[_Item], most: int) -> Sequence[_Item]:
    """Return at most `most` items at even distances, with the first and the last one."""
    if len(numbers) <= most:
        return numbers
    return [numbers[at * (len(numbers) - 1) // max(1, most - 1)] for at in range(most)]


def extremes(numbers: Sequence[float], most: int) -> Sequence[float]:
    """Return at most `most` numbers: of neighbours the one that is not finite or is farthest from the mean of all."""
    if len(numbers) <= most:
        return numbers
    finite = [number for number in numbers if math.isfinite(number)]
    middle = sum(finite) / max(1, len(finite))
    ends = [at * len(numbers) // most for at in range(most + 1)]
    shares = (numbers[start:end] for start, end in pairwise(ends))
    return [max(share, key=lambda each: abs(each - middle) if math.isfinite(each) else math.inf) for share in shares]


def chart(title: str, series: dict[int, list[float]], span: str, width: int, height: int = HEIGHT) -> list[list[Piece]]:
    """Draw the numbers of several ranks, each curve up to its rank's name; `span` is the text below the axis."""
    finite = [number for numbers in series.values() for number in numbers if math.isfinite(number)]
    if not finite:
        return []
    low, high = min(finite), max(finite)
    ends = [f"{high:.4g}", f"{low:.4g}"] if high > low else [f"{high:.4g}", ""]
    left = max(map(len, ends))
    columns = width - left - 2 - min(NAMES, 1 + len(format_ranks(series)))
    canvas = _Canvas(columns, height)
    last: dict[int, list[int]] = {}
    for rank, numbers in reversed(series.items()):  # the first rank lies on top
        row = canvas.draw(numbers, low, (high - low) or 1.0, COLOURS[rank % len(COLOURS)])
        last.setdefault(row, []).append(rank)
    lines: list[list[Piece]] = [[(" " * left + "  ", ""), (title, "head")]]
    for row in range(height):
        value = ends[0] if row == 0 else ends[1] if row == height - 1 else ""
        tick = "┤" if value else "│"
        line = [(f"{value:>{left}} {tick}", "quiet"), *canvas.row(row)]
        lines.append([*line, (f" {format_ranks(last[row])}" if row in last else "", "quiet")])
    lines.append([(f"{' ' * left} └{f' {span}'.rjust(columns, '─')}", "quiet")])
    return lines


def beside(charts: Sequence[list[list[Piece]]], width: int) -> list[list[Piece]]:
    """Lay out charts of the same height beside each other, each `width` columns wide."""
    lines: list[list[Piece]] = []
    for row in zip(*charts, strict=True):
        line: list[Piece] = []
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
        points, before, at = thinned(numbers, 2 * self.width), None, 0
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

    def row(self, row: int) -> list[Piece]:
        runs = groupby(zip(self.bits[row], self.styles[row], strict=True), key=lambda cell: cell[1])
        return [("".join(QUARTERS[bits] for bits, _ in run), style) for style, run in runs]

    def _line(self, x0: int, y0: int, x1: int, y1: int, style: str) -> None:
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for step in range(steps + 1):
            self._dot(x0 + round((x1 - x0) * step / steps), y0 + round((y1 - y0) * step / steps), style)

    def _dot(self, x: int, y: int, style: str) -> None:
        self.bits[y // 2][x // 2] |= 1 << (x % 2 + 2 * (y % 2))
        self.styles[y // 2][x // 2] = style
