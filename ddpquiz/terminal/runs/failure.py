"""What went wrong in a run: the rank that failed first with its traceback, or who waits where; and what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from ddpquiz.analysis.stack_frames import frames_in
from ddpquiz.terminal.kit.layout import shown_path
from ddpquiz.terminal.kit.style import plain

INSTALLED = re.compile(r"[/\\](lib[/\\]python3|site-packages|dist-packages|ddpquiz[/\\]ranks)[/\\.]|^<")

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddpquiz.analysis.events import Output, RankPosition
    from ddpquiz.analysis.run_state import RunState


def failure(state: RunState) -> list[RenderableType]:
    """Return what went wrong: the traceback of the rank that failed first, or who waits where."""
    parts: list[RenderableType] = []
    if state.hung:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        for column in ("", "waits in", "stands at"):
            table.add_column(column)
        for each in state.hung.ranks:
            place = f"{shown_path(each.file)}:{each.line}" if each.line else "-"
            table.add_row(f"rank {each.rank}", Text(*_waits(each, state)), place)
        parts += [table, Text()]
        ways = {each.rank: way(each.stack) for each in state.hung.ranks}
        if any(len(path) > 1 for path in ways.values()):
            parts += [Text(f"rank {rank}  {' > '.join(path)}", style="quiet") for rank, path in ways.items()]
            parts.append(Text())
    elif state.end and state.end.rank is not None:
        rank = state.end.rank
        raised, exited = state.raised.get(rank), state.exited.get(rank)
        if raised and raised.traceback and raised.error != "SystemExit":
            parts += [Text(f"rank {rank}", style="bad"), Text(plain(raised.traceback.rstrip()))]
        elif exited and exited.stack:
            parts.append(Text.assemble((f"rank {rank}  ", "bad"), " > ".join(way(exited.stack))))
    return parts


def ending(state: RunState) -> Text:
    """Return what a failure comes to: why in a sentence, and what to do about it."""
    end = state.end
    if end is None or not end.why:
        return Text()
    return Text.assemble((plain(end.why), "bad"), *([f"\n{plain(end.mend)}"] if end.mend else []))


def way(stack: str) -> list[str]:
    """Return the calls that led a rank to where it stands, the outermost first; what is installed is left out."""
    frames = frames_in(stack)
    if not stack.startswith("Traceback"):
        frames.reverse()
    return [
        plain(f"{shown_path(file)}:{line} {name}") for file, line, name in frames if name and not INSTALLED.search(file)
    ]


def _waits(rank: RankPosition, state: RunState) -> tuple[str, str]:
    """Say what a rank waits in, or why in nothing; and the style for it."""
    if rank.waits_in and rank.stack:
        return rank.waits_in, ""
    exited = state.exited.get(rank.rank)
    if exited and state.hung and exited.time < state.hung.time and not exited.stopped:
        return f"nothing: it has ended with status {exited.status}", "warn"
    return "not communicating" if rank.stack else "does not answer", "warn"


def matters(line: Output, state: RunState) -> bool:
    """Leave out what other ranks complain about when one has failed, and what its own last line says again."""
    if line.stream == "stdout" or state.end is None or state.end.rank is None or state.hung:
        return True
    return line.rank == state.end.rank and line.text != state.end.why
