"""How a run ended: its last line, its claims with their verdicts, and what went wrong with the ranks."""

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ddpquiz.analysis.costliest_line import find_costliest_line
from ddpquiz.analysis.frames import ending
from ddpquiz.analysis.frames.ending import Failure
from ddpquiz.analysis.run_state import RunState
from ddpquiz.analysis.run_summary import advice
from ddpquiz.terminal.kit.grid import GAP, Piece, TextLines, folded
from ddpquiz.terminal.kit.layout import shown_path
from ddpquiz.terminal.kit.style import plain

INTERRUPTED = "You stopped the run."
TERMINATED = "SIGTERM ended the run."  # from a scheduler, which expects that the report and the file are written


def result(state: RunState) -> Text:
    """Draw the last line of a run: whether it ended well, after how long, and with how many claims proven."""
    return Text.assemble(*((plain(text), tone) for text, tone in ending.result(state)))


def remarks(state: RunState, *, keys: bool = True) -> list[Text]:
    """Draw which line of the user's own script made the other ranks wait the longest, and whether there is advice.

    Without `keys`, as in a pipe, no key is named.
    """
    if not (state.only_broken_claims and state.end and state.end.ok):
        return []
    found = find_costliest_line(state.timeline, state.time)
    sentences = [str(found)] if found else []
    if count := len(advice(state.timeline, state.time, state.script)):
        sentences.append(f"There is advice on this run ({count}): {'press s, or ' * keys}run it with --summary.")
    return [Text(plain(each), style="warn") for each in sentences]


def failure(state: RunState) -> list[RenderableType]:
    """Draw what went wrong: the traceback of the rank that failed first, or which rank waits where."""
    found = ending.describe_failure(state, shown_path)
    if found is None:
        return []
    if found.hung_ranks:
        return _hang(found)
    if found.traceback:
        return [Text(f"rank {found.rank}", style="bad"), Text(plain(found.traceback))]
    return [Text.assemble((f"rank {rank}  ", "bad"), plain(path)) for rank, path in found.paths]


def _hang(found: Failure) -> list[RenderableType]:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in ("", "waits in", "stands at"):
        table.add_column(column)
    for each in found.hung_ranks:
        table.add_row(f"rank {each.rank}", Text(*each.waits_in), each.place)
    parts: list[RenderableType] = [table, Text()]
    if found.paths:
        parts += [Text(f"rank {rank}  {plain(path)}", style="quiet") for rank, path in found.paths]
        parts.append(Text())
    return parts


def claims(state: RunState) -> list[tuple[Piece, Piece]]:
    """Return verdicts and claims, lined up."""
    rows = ending.describe_claims(state)
    width = max((cell_len(verdict) for (verdict, _), _ in rows), default=0) + GAP
    return [((verdict.ljust(width), tone), (plain(text), of)) for (verdict, tone), (text, of) in rows]


def folded_claims(state: RunState, width: int) -> TextLines:
    """Draw verdicts and claims, with a count of the claims that may still come."""
    lines: list[list[Piece]] = []
    for verdict, (text, style) in claims(state):
        indent = cell_len(verdict[0])
        for number, part in enumerate(folded(text, width - indent)):
            lines.append([(" " * indent, "") if number else verdict, (part, style)])
    if left := ending.claims_to_come(state):
        lines.append([(left, "quiet")])
    return TextLines(lines)


def counted_claims(state: RunState) -> Text:
    """Draw in a line how many claims were proven and broken so far."""
    verdicts: list[str] = [verdict for _, verdict, _ in ending.shown_verdicts(state)]
    if set(verdicts) == {"not reached"} and not state.end:
        return Text(ending.to_come(len(verdicts)), style="quiet")
    line = Text(f"{verdicts.count('proven')} of {len(verdicts)} claims proven so far", style="quiet")
    broken = verdicts.count("broken")
    return line.append(f" · {broken} broken", style="bad") if broken else line
