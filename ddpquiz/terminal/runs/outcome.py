"""How a run ended: its last line, its claims with their verdicts, and what went wrong with the ranks."""

import re

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ddpquiz.analysis.events import ClaimText, Hung, Output, RankPosition
from ddpquiz.analysis.formatting import format_ranks, plural
from ddpquiz.analysis.run_state import ClaimVerdict, RunState
from ddpquiz.analysis.source_text import frames_in
from ddpquiz.terminal.kit.grid import GAP, Piece, TextLines, folded
from ddpquiz.terminal.kit.layout import shown_path
from ddpquiz.terminal.kit.style import plain

INTERRUPTED = "You stopped the run."
TERMINATED = "SIGTERM ended the run."  # from a scheduler, which expects that the report and the file are written
INSTALLED = re.compile(r"[/\\](lib[/\\]python3|site-packages|dist-packages|ddpquiz[/\\]ranks)[/\\.]|^<")
TORCH_LOG = re.compile(r"(\[rank\d+\]:)?\[[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ \S+:\d+\] ")  # as torch's C++ code logs
MARKS = {"proven": ("✓", "good"), "broken": ("✗", "bad"), "not reached": ("·", "quiet")}


def result(state: RunState) -> Text:
    """Return the last line of a run: whether it ended well, after how long, and with how many claims proven."""
    end = state.end
    if end is None:
        return Text()
    claims = ""
    if end.claims and not state.only_broken_claims:
        others = end.claims - end.proven
        claims = f" · {end.proven} of {end.claims} claims proven"
        if end.ok and others:
            claims = f" · {plural(end.proven, 'claim')} proven; {others} need{'s' * (others == 1)} other options"
    if end.ok:
        return Text.assemble(("done", "good"), f" in {end.time:.2f} s{claims}")
    mend = f"\n{plain(end.mend)}" if end.why and end.mend else ""
    return Text.assemble((plain(end.why), "bad"), mend, f"\nended after {end.time:.2f} s{claims}")


def failure(state: RunState) -> list[RenderableType]:
    """Return what went wrong: the traceback of the rank that failed first, or which rank waits where."""
    if state.hung:
        return _hang(state.hung, state)
    if state.end is None or state.end.rank is None:
        return []
    rank = state.end.rank
    raised, exited = state.raised.get(rank), state.exited.get(rank)
    if raised and raised.traceback and raised.error != "SystemExit":
        return [Text(f"rank {rank}", style="bad"), Text(plain(raised.traceback.rstrip()))]
    if exited and exited.stack:
        return [Text.assemble((f"rank {rank}  ", "bad"), " > ".join(calls(exited.stack)))]
    return []


def matters(line: Output, state: RunState) -> bool:
    """Whether a line belongs into the picture; the log of its rank has it in any case.

    Messages of torch's C++ code do not while nothing has failed. When a rank has failed, the standard error of the
    others does not, nor does the line that the last sentence repeats.
    """
    failed = None if state.end is None or state.hung else state.end.rank
    if line.stream == "stdout":
        return True
    if failed is None:
        return not TORCH_LOG.match(line.text)
    return line.rank == failed and state.end is not None and line.text != state.end.why


def calls(stack: str) -> list[str]:
    """Return the calls that led a rank to where it stands, the outermost first, without those of installed code."""
    frames = frames_in(stack)
    if not stack.startswith("Traceback"):
        frames.reverse()
    return [
        plain(f"{shown_path(file)}:{line} {name}") for file, line, name in frames if name and not INSTALLED.search(file)
    ]


def _hang(hung: Hung, state: RunState) -> list[RenderableType]:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in ("", "waits in", "stands at"):
        table.add_column(column)
    for each in hung.ranks:
        place = f"{shown_path(each.file)}:{each.line}" if each.line else "-"
        table.add_row(f"rank {each.rank}", Text(*_waits(each, state)), place)
    paths = {each.rank: calls(each.stack) for each in hung.ranks}
    parts: list[RenderableType] = [table, Text()]
    if any(len(path) > 1 for path in paths.values()):
        parts += [Text(f"rank {rank}  {' > '.join(path)}", style="quiet") for rank, path in paths.items()]
        parts.append(Text())
    return parts


def _waits(rank: RankPosition, state: RunState) -> tuple[str, str]:
    """Return what a rank waits in, or why it waits in nothing; and the style for that."""
    if rank.waits_in and rank.stack:
        return rank.waits_in, ""
    exited = state.exited.get(rank.rank)
    if exited and state.hung and exited.time < state.hung.time and not exited.stopped:
        return f"nothing: it has ended with status {exited.status}", "warn"
    return "not communicating" if rank.stack else "does not answer", "warn"


def claims(state: RunState) -> list[tuple[Piece, Piece]]:
    """Return verdicts and claims, lined up; those that a run did not reach come last, once it has ended well."""
    ended_well = state.end is not None and state.end.ok
    verdicts = sorted(_verdicts(state), key=lambda each: each[1] == "not reached")
    rows = [_claim(*each, len(state.all_ranks)) for each in verdicts if ended_well or each[1] != "not reached"]
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


def _claim(claim: ClaimText, verdict: str, ranks: list[int], of: int) -> tuple[Piece, Piece]:
    mark, style = MARKS[verdict]
    match verdict:
        case "proven":
            where = format_ranks(ranks) if len(ranks) < of else "every rank" if of > 1 else "the rank"
        case "broken":
            where = format_ranks(ranks)
        case _:
            where = "not this run"
    return (f"{mark} {where}", style), (plain(claim.text), "quiet" if verdict == "not reached" else "")
