"""What each rank holds: a column a rank, a row a label."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.cells import cell_len

from ddpquiz.ranks.history.seen import KEPT
from ddpquiz.terminal.curves import FEWEST, NARROWEST, bends, beside, chart, numbers_in, sparkline
from ddpquiz.terminal.grid import GAP, MARK, Cell, Grid, Lines

if TYPE_CHECKING:
    from collections.abc import Collection

    from ddpquiz.ranks.history.seen import Seen

COLUMN = 10  # a rank's column at the least; with less, the ranks go below each other in groups
APART = 24  # a rank's column at the most while all its values are short, so that the columns do not run apart
CHART = 72  # columns of a chart at the most
NOTHING = Cell("-", "quiet")


def tables(
    seen: Seen,
    width: int,
    *,
    live: bool,
    tensors: bool,
    since: float,
    rows: int | None = None,
    plotted: Collection[str] = (),
) -> list[Lines]:
    """Draw the values of all ranks, as many beside each other as fit.

    What was said after `since` is marked, and only the last `rows` labels are shown; those that are `plotted` elsewhere
    need no bars.
    """
    labels = list(seen.rows) if rows is None else _newest(seen, rows)
    names = max([6, *(cell_len(label) for label in labels)])
    names = min(max(names, 8) if live else names, width // 3)
    fit = max(1, (width - names) // (COLUMN + GAP))
    groups = math.ceil(len(seen.here) / fit)
    columns = math.ceil(len(seen.here) / max(1, groups))
    widest = (width - names) // max(1, columns) - GAP
    drawn: list[Lines] = []
    for start in range(0, len(seen.here), max(1, columns)):
        ranks = seen.here[start : start + columns]
        grid = Grid([Cell(f"rank {rank}", "head") for rank in ranks])
        if live:
            grid.rows.append(
                (Cell("doing", "quiet"), [Cell(_cut(seen.doing(rank), widest), "quiet") for rank in ranks])
            )
        if tensors:
            grid.rows.append((Cell("brings", "head"), [_brings(seen, rank) for rank in ranks]))
            grid.rows.append((Cell("gets", "head"), [_values(seen.got.get(rank, ())) for rank in ranks]))
        for label in labels:
            cells = [_cell(seen, label, rank, widest, since, bars=label not in plotted) for rank in ranks]
            grid.rows.append((Cell(label, "head"), cells))
        if any(cell.marked for _, cells in grid.rows for cell in cells):
            grid.corner = Cell(f"{MARK} new", "accent")
        drawn.append(grid.drawn(names, widest, narrowest=min(widest, APART) if live else 0))
    return drawn


def to_plot(seen: Seen, width: int, most: int = 3) -> dict[str, dict[int, list[float]]]:
    """Return numbers by label and rank that are worth a curve, as many labels as have room beside each other."""
    series: dict[str, dict[int, list[float]]] = {}
    for label, said in seen.rows.items():
        numbers = {rank: numbers_in(values) for rank, values in sorted(said.items())}
        if max(map(len, numbers.values())) >= FEWEST and any(map(bends, numbers.values())):
            series[label] = {rank: each for rank, each in numbers.items() if each}
    longest = sorted(series, key=lambda label: -_count(seen, label))
    return {label: series[label] for label in longest[: max(1, min(most, width // NARROWEST))]}


def charts(seen: Seen, series: dict[str, dict[int, list[float]]], width: int) -> Lines:
    """Draw them beside each other."""
    each = min(width // max(1, len(series)), CHART)
    drawn = [chart(label, series[label], _span(_count(seen, label)), each - GAP) for label in series]
    return Lines(beside([one for one in drawn if one], each))


def _count(seen: Seen, label: str) -> int:
    return max(map(len, seen.rows[label].values()))


def _span(count: int) -> str:
    return f"said {count} times" if count < KEPT else f"the last {count} times"


def _newest(seen: Seen, rows: int) -> list[str]:
    """Return the labels that were said last, in the order in which they were said first."""
    said = sorted(seen.rows, key=lambda label: max(seen.said_at[label].values()))
    kept = set(said[len(said) - rows :])
    return [label for label in seen.rows if label in kept]


def _cell(seen: Seen, label: str, rank: int, width: int, since: float, *, bars: bool) -> Cell:
    values = seen.rows[label].get(rank)
    if not values:
        return NOTHING
    numbers = numbers_in(values) if bars else []
    below = ((sparkline(numbers, min(width, 16)), "accent"),) if bends(numbers) else ()
    return Cell(values[-1], "", below, seen.changed(label, rank, since))


def _brings(seen: Seen, rank: int) -> Cell:
    brought = seen.brought.get(rank)
    if brought is None or brought.before or brought.op == "recv":
        return _values(brought.before if brought else ())
    return Cell(" ".join("x".join(map(str, shape)) or "1" for shape in brought.shapes) + f" {brought.dtype}", "code")


def _values(values: tuple[str, ...]) -> Cell:
    return Cell("\n".join(values), "code") if values else NOTHING


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
