"""Pages about a run: the log of a rank, and the legend of all signs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.terminal.kit.grid import MARK, Piece, TextLines, folded
from ddpquiz.terminal.kit.hotkeys import Hotkey, help_page
from ddpquiz.terminal.kit.layout import columns, section
from ddpquiz.terminal.runs.claims import MARKS
from ddpquiz.terminal.runs.curves import BARS
from ddpquiz.terminal.runs.gantt import BRIEF, GLYPHS
from ddpquiz.terminal.runs.source import GONE, INSIDE, LAST

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ddpquiz.analysis.events import Output
    from ddpquiz.analysis.run_state import RunState


ERR = ("err ", "warn")  # stands before a line of standard error where any was written


def log(state: RunState, rank: int, width: int) -> TextLines:
    """Draw the lines of a rank, each with its time in seconds."""
    lines = state.log.get(rank, ())
    if not lines:
        return TextLines([[(f"Rank {rank} has printed nothing.", "quiet")]])
    has_errors = any(line.stream == "stderr" for line in lines)
    return TextLines(part for line in lines for part in _folded(line, width, has_errors=has_errors))


def _folded(line: Output, width: int, *, has_errors: bool) -> list[list[Piece]]:
    margin: list[Piece] = [(f"{line.time:7.2f}  ", "quiet")]
    if has_errors:
        margin.append(ERR if line.stream == "stderr" else (" " * len(ERR[0]), ""))
    indent = sum(len(text) for text, _ in margin)
    parts = folded(line.text, width - indent)
    below: list[Piece] = [(" " * indent, "")]
    return [[*(below if number else margin), (part, "")] for number, part in enumerate(parts)]


VALUES = {
    (MARK, "accent"): "new: it changed in the last half second, or since the previous step",
    ("-", "quiet"): "nothing yet",
    ("..", ""): "cut: the log of the rank has all of it",
    (
        BARS[0] + BARS[3] + BARS[7],
        "accent",
    ): "the values of a label, oldest first; all ranks share one scale from 0; ! is inf or nan",
    ("doing", "quiet"): "the operation that the rank is in, or computing",
    ("brings", "head"): "what the rank gave to its last operation: values, or the shape of a larger tensor",
    ("gets", "head"): "what that operation left on the rank; done: it is over, and its result is too large to show",
    ("arrived", "accent"): "ranks that have called the current operation",
    ("awaiting", "warn"): "ranks that have not called it yet; the others wait for them",
    ("under way", "quiet"): "other operations that have begun and not ended; a rank may compute meanwhile",
}
LANES = {
    GLYPHS["compute"]: "the rank runs its script and does not communicate",
    GLYPHS["communication"]: "all ranks have called the operation, and it runs",
    GLYPHS["waiting"]: "the rank is in an operation that another rank has not called yet",
    BRIEF: "the rank computes, with an operation too short for a column",
    ("0 s", "quiet"): "the time when the first rank communicated or printed",
}
CLAIMS = {
    MARKS["proven"]: "the claim held on these ranks",
    MARKS["broken"]: "it did not hold on these ranks",
    MARKS["not reached"]: "not this run: the claim is about other arguments",
}
SOURCE = {
    (INSIDE, "warn"): "these ranks wait in this line",
    (LAST, "warn"): "these ranks were last seen here",
    (GONE, "warn"): "these ranks have ended",
}


def legend(keys: Iterable[Hotkey]) -> RenderableType:
    """Draw the page of help: the keys, then what each sign means."""
    parts: list[RenderableType] = [help_page(keys)]
    for title, signs in (
        ("What ranks hold", VALUES),
        ("Ranks over time", LANES),
        ("Claims", CLAIMS),
        ("Source", SOURCE),
    ):
        parts += section(title, columns((Text(sign, style), Text(means)) for (sign, style), means in signs.items()))
    return Group(*parts)
