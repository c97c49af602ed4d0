"""The claims of a run, with their verdicts."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text

from ddpquiz.analysis.events import ClaimText
from ddpquiz.analysis.formatting import format_ranks
from ddpquiz.analysis.run_state import ClaimVerdict, RunState
from ddpquiz.terminal.kit.grid import GAP, Piece, TextLines, folded
from ddpquiz.terminal.kit.style import plain

MARKS = {"proven": ("✓", "good"), "broken": ("✗", "bad"), "not reached": ("·", "quiet")}


def claims(state: RunState) -> list[tuple[Piece, Piece]]:
    """Return verdicts and claims, lined up; those that a run did not reach come last, once it has ended well."""
    ended_well = state.end is not None and state.end.ok
    here = " here" if state.began and state.began.here else ""
    verdicts = sorted(_verdicts(state), key=lambda each: each[1] == "not reached")
    rows = [_claim(*each, len(state.here), here) for each in verdicts if ended_well or each[1] != "not reached"]
    width = max((cell_len(verdict) for (verdict, _), _ in rows), default=0) + GAP
    return [((verdict.ljust(width), style), claim) for (verdict, style), claim in rows]


def folded_claims(state: RunState, width: int) -> TextLines:
    """Draw verdicts and claims, with a count of the claims that may still come."""
    lines: list[list[Piece]] = []
    rows = claims(state)
    for verdict, (text, style) in rows:
        indent = cell_len(verdict[0])
        for number, part in enumerate(folded(text, width - indent)):
            lines.append([(" " * indent, "") if number else verdict, (part, style)])
    left = len(_verdicts(state)) - len(rows)
    if left and state.end is None:
        lines.append([(to_come(left), "quiet")])
    return TextLines(lines)


def to_come(count: int) -> str:
    """Return how many claims may still be proven, as text."""
    return f"{count} claim{'s' * (count != 1)} to come"


def counted_claims(state: RunState) -> Text:
    """Draw in a line how many claims were proven and broken so far."""
    verdicts: list[str] = [verdict for _, verdict, _ in _verdicts(state)]
    if set(verdicts) == {"not reached"} and not state.end:
        return Text(to_come(len(verdicts)), style="quiet")
    line = Text(f"{verdicts.count('proven')} of {len(verdicts)} claims proven so far", style="quiet")
    broken = verdicts.count("broken")
    return line.append(f" · {broken} broken", style="bad") if broken else line


def _verdicts(state: RunState) -> list[ClaimVerdict]:
    """Return the claims that are shown: all of a demo, and the broken ones of any other script."""
    return [each for each in state.verdicts() if each[1] == "broken" or not state.only_broken_claims]


def _claim(claim: ClaimText, verdict: str, ranks: list[int], of: int, here: str) -> tuple[Piece, Piece]:
    mark, style = MARKS[verdict]
    match verdict:
        case "proven":
            where = format_ranks(ranks) if len(ranks) < of else "every rank" if of > 1 else "the rank"
            where += here
        case "broken":
            where = format_ranks(ranks)
        case _:
            where = "not this run"
    return (f"{mark} {where}", style), (plain(claim.text), "quiet" if verdict == "not reached" else "")
