"""What of a run is looked at: its picture, a log, the script, or a page of help; and the keys that change that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from ddpquiz.terminal.kit.grid import MARK, TextLines, folded
from ddpquiz.terminal.kit.hotkeys import Hotkey, help_page
from ddpquiz.terminal.kit.layout import columns, section
from ddpquiz.terminal.runs.claims import MARKS
from ddpquiz.terminal.runs.curves import BARS
from ddpquiz.terminal.runs.gantt import BRIEF, GLYPHS
from ddpquiz.terminal.runs.source import GONE, INSIDE, LAST

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from ddpquiz.analysis.events import Output
    from ddpquiz.analysis.run_state import RunState
    from ddpquiz.terminal.kit.grid import Piece


ERR = ("err ", "warn")  # stands before a line of standard error where any was written


def log(seen: RunState, rank: int, width: int) -> TextLines:
    """Draw the lines of a rank, each with the second in which it came."""
    said = seen.log.get(rank, ())
    if not said:
        return TextLines([[(f"Rank {rank} has printed nothing.", "quiet")]])
    has_errors = any(line.stream == "stderr" for line in said)
    return TextLines(part for line in said for part in _folded(line, width, has_errors=has_errors))


def _folded(line: Output, width: int, *, has_errors: bool) -> list[list[Piece]]:
    margin: list[Piece] = [(f"{line.time:7.2f}  ", "quiet")]
    if has_errors:
        margin.append(ERR if line.stream == "stderr" else (" " * len(ERR[0]), ""))
    indent = sum(len(text) for text, _ in margin)
    parts = folded(line.text, width - indent)
    below: list[Piece] = [(" " * indent, "")]
    return [[*(below if number else margin), (part, "")] for number, part in enumerate(parts)]


VALUES = {
    (MARK, "accent"): "has changed just now, or since the step before",
    ("-", "quiet"): "nothing yet",
    ("..", ""): "more than fits here",
    (
        BARS[0] + BARS[3] + BARS[7],
        "accent",
    ): "what a rank said under a label, oldest first; all ranks on one scale, from 0; ! is inf or nan",
    ("doing", "quiet"): "the operation that a rank is in, or computing",
    ("brings", "head"): "what a rank gives to its last operation: values, or the shape of a tensor that is larger",
    ("gets", "head"): "what that operation left on the rank; done: it is over, and what it left cannot be shown",
    ("arrived", "accent"): "ranks that have called the operation that is under way",
    ("awaiting", "warn"): "ranks that have not, and for which the others wait",
    ("under way", "quiet"): "other operations that have begun and not ended; a rank may compute beside them",
}
LANES = {
    GLYPHS["compute"]: "the rank runs its script: all that is no communication",
    GLYPHS["communication"]: "all have come to the operation, and it is at work",
    GLYPHS["waiting"]: "the rank is in an operation to which somebody has not come yet",
    BRIEF: "computing, with an operation that is too short for a column of its own",
    ("0 s", "quiet"): "when the first rank communicated or printed",
}
CLAIMS = {
    MARKS["proven"]: "the claim held on these ranks",
    MARKS["broken"]: "it did not hold there",
    MARKS["not reached"]: "not this run: it is about other arguments",
}
SOURCE = {
    (INSIDE, "warn"): "these ranks wait in this line",
    (LAST, "warn"): "they were last seen here",
    (GONE, "warn"): "they have ended",
}


def legend(keys: Iterable[Hotkey]) -> RenderableType:
    """Draw it, the keys first."""
    parts: list[RenderableType] = [help_page(keys)]
    for title, signs in (
        ("What ranks hold", VALUES),
        ("Ranks over time", LANES),
        ("Claims", CLAIMS),
        ("Source", SOURCE),
    ):
        parts += section(title, columns((Text(sign, style), Text(means)) for (sign, style), means in signs.items()))
    return Group(*parts)
