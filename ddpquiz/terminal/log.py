"""All that one rank has printed, standard error included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddpquiz.terminal.grid import Lines, folded

if TYPE_CHECKING:
    from ddpquiz.ranks.events import Output
    from ddpquiz.ranks.history.seen import Seen
    from ddpquiz.terminal.grid import Piece

ERR = ("err ", "warn")  # stands before a line of standard error where any was written


def log(seen: Seen, rank: int, width: int) -> Lines:
    """Draw the lines of a rank, each with the second in which it came."""
    said = seen.log.get(rank, ())
    if not said:
        return Lines([[(f"Rank {rank} has printed nothing.", "quiet")]])
    has_errors = any(line.stream == "stderr" for line in said)
    return Lines(part for line in said for part in _folded(line, width, has_errors=has_errors))


def _folded(line: Output, width: int, *, has_errors: bool) -> list[list[Piece]]:
    margin: list[Piece] = [(f"{line.time:7.2f}  ", "quiet")]
    if has_errors:
        margin.append(ERR if line.stream == "stderr" else (" " * len(ERR[0]), ""))
    indent = sum(len(text) for text, _ in margin)
    parts = folded(line.text, width - indent)
    below: list[Piece] = [(" " * indent, "")]
    return [[*(below if number else margin), (part, "")] for number, part in enumerate(parts)]
