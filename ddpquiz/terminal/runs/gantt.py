"""Ranks over time: one lane per rank that shows when it computed, communicated and waited."""

import math
from itertools import groupby

from ddpquiz.events.run_frame import RunFrame
from ddpquiz.events.timeline import Span
from ddpquiz.terminal.kit.grid import StyledText, TextLines

GLYPHS = {"compute": ("━", "good"), "communication": ("█", "accent"), "waiting": ("░", "warn")}
BRIEF = ("╋", "accent")  # computing, with an operation too short for a column
_LEGEND: list[StyledText] = [
    *(piece for kind, sign in GLYPHS.items() for piece in (sign, (f" {kind}   ", "quiet"))),
    *(BRIEF, (" compute with a short call   ", "quiet")),
]
AROUND = 4  # lines above and below the lanes: legend, axis, the running operation, and the keys
_SHORTEST = 0.1  # seconds that a lane shows at least
_WINDOW = 10.0  # seconds that a live view shows
_WIDEST = 100  # columns of a lane


def gantt(shown: RunFrame, width: int, *, live: bool, until: float | None = None) -> TextLines:
    """Draw what each rank did: in the last seconds if `live`, else in the whole run.

    The lanes begin when the first rank communicates or prints, and end when the last one does: before and after that,
    processes only start and end. Their times are those of the log: seconds since the run was asked for. `until` is the
    end of a run that is known already; a short run then has room for all of itself from the start.
    """
    names = len(f"rank {max(shown.ranks, default=0)}") + 2
    columns = max(10, min(width - names, _WIDEST))
    lanes = shown.lanes
    if lanes is None:
        return TextLines([])
    first = lanes.first
    start, end = _window(first, shown.time, columns, until) if live else (first, lanes.last)
    time = f"{_WINDOW:.0f} s" if start > first else "time"
    lines: list[list[StyledText]] = [[(time.ljust(names), "quiet"), *_LEGEND]]
    lines += [
        [(f"rank {rank}".ljust(names), "quiet"), *_lane(spans, start, end, columns)]
        for rank, spans in lanes.spans.items()
    ]
    return TextLines([*lines, [(" " * names, ""), (_axis(start, end, columns), "quiet")]])


def _axis(start: float, end: float, columns: int) -> str:
    """Write times below a lane, at round numbers."""
    step = _round_up((end - start) * 12 / columns)
    digits = max(0, -math.floor(math.log10(step)))
    line = ""
    for number in range(math.ceil(start / step - 1e-9), math.floor(end / step + 1e-9) + 1):
        at = round((number * step - start) / (end - start) * columns)
        tick = f"╵{number * step:.{digits}f} s" if number else "╵0 s"
        if (not line or len(line) < at) and at <= columns - len(tick):  # a gap, so that each time is read by itself
            line = line.ljust(at) + tick
    return line


def _round_up(number: float) -> float:
    power: float = 10.0 ** math.floor(math.log10(number))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= number * 0.999)


def _window(first: float, now: float, columns: int, until: float | None) -> tuple[float, float]:
    """The first and last time of the lanes; they grow to a round length, and then move by whole columns."""
    if until is not None and until - first < _WINDOW:
        return first, max(until, now)
    if now - first < _WINDOW:
        return first, first + _round_up(max(_SHORTEST, now - first))
    column = _WINDOW / columns
    end = math.ceil(now / column) * column
    return end - _WINDOW, end


def _lane(spans: list[Span], start: float, end: float, columns: int) -> list[StyledText]:
    cells: list[dict[str, float]] = [{} for _ in range(columns)]
    column = (end - start) / columns
    for span in reversed(spans):
        if span.end <= start:
            break
        left, right = (span.start - start) / column, (span.end - start) / column
        at = int(left)
        if left >= 0 and right <= at + 1 and at < columns:  # where there are many spans, most are this short
            shares = [(at, right - left)]
        else:
            cut, last = max(left, 0.0), min(columns, math.ceil(right))
            shares = [(at, min(right, at + 1) - max(cut, at)) for at in range(int(cut), last)]
        for at, share in shares:
            if share > 1e-6:  # less is a rounding error
                cells[at][span.kind] = cells[at].get(span.kind, 0.0) + share
    glyphs = [_glyph(cell) for cell in cells]
    while glyphs and glyphs[-1][0] == " ":
        glyphs.pop()
    runs = groupby(glyphs, key=lambda piece: piece[1])
    return [("".join(glyph for glyph, _ in run), style) for style, run in runs]


def _glyph(cell: dict[str, float]) -> StyledText:
    if not cell:
        return " ", ""
    most = max(cell, key=lambda kind: cell[kind])
    return BRIEF if most == "compute" and "communication" in cell else GLYPHS[most]
