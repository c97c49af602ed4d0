"""The account of a run as a page: time, bytes, and advice."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ddpquiz.events.run_summary import LineCost, RunSummary
from ddpquiz.events.summary_sections import (  # fmt: skip
    GROUP_TITLE,
    LINE_HEADS,
    LINE_TITLE,
    MEMORY_HEADS,
    MEMORY_TITLE,
    TIME_HEADS,
    TIME_TITLE,
    group_cells,
    line_cells,
    line_names,
    memory_cells,
    time_cells,
)
from ddpquiz.events.timeline import RankTime
from ddpquiz.terminal.kit.layout import Narrowing, Shortened, bullets, columns, new_table, section
from ddpquiz.terminal.kit.style import plain, prose
from ddpquiz.terminal.runs.gantt import GLYPHS

_BAR = 12  # columns of the bar of a rank's time


def summary_page(account: RunSummary) -> RenderableType:
    """Draw time by rank, the costliest lines, bytes by group, and advice."""
    parts: list[RenderableType] = []
    if account.costliest:
        parts += [Text(), prose(str(account.costliest))]
    parts += section(TIME_TITLE, _times(account.ranks))
    if account.lines:
        parts += section(LINE_TITLE, _lines(account.lines))
        parts += [Text(f"  and {account.other_lines} more", style="quiet")] if account.other_lines else []
    if groups := group_cells(account):
        parts += section(GROUP_TITLE, columns(tuple(map(Text, cells)) for cells in groups))
    if account.memory:
        parts += section(MEMORY_TITLE, _memory(account))
    if account.mismatches:
        parts += section("What does not match", bullets(prose(text, "bad") for text in account.mismatches))
    if account.advice:
        parts += section("Advice", bullets(prose(text) for text in account.advice))
    return Group(*parts)


def _times(ranks: tuple[RankTime, ...]) -> Narrowing:
    table = new_table(("", "", *TIME_HEADS), left=(0, 1))
    for each in ranks:
        *cells, overlapped = time_cells(each)
        seconds = {"compute": each.compute, "communication": each.communication, "waiting": each.waiting}
        table.add_row(f"rank {each.rank}", _bar(seconds), *map(Text, cells), Text(overlapped, style="quiet"))
    return Narrowing(table, (1, 5))  # the bar, which shows what the numbers say, then `overlapped`


def _bar(seconds: dict[str, float]) -> Text:
    whole, bar, drawn, passed = sum(seconds.values()), Text(), 0, 0.0
    for kind, part in seconds.items():
        passed += part
        columns = round(_BAR * passed / whole) - drawn if whole else 0
        glyph, style = GLYPHS[kind]
        bar.append(glyph * columns, style=style)
        drawn += columns
    return bar


def _lines(lines: tuple[LineCost, ...]) -> Narrowing:
    heads = ("\n".join(head.rsplit(" ", 1)) for head in LINE_HEADS)  # narrow, so that names of lines have room
    table = new_table(("", "", *heads), left=(0, 1))
    for each in lines:
        place, operation = map(plain, line_names(each))
        table.add_row(Shortened(place), operation, *line_cells(each))
    return Narrowing(table, (2,))  # the calls


def _memory(account: RunSummary) -> Table:
    table = new_table(("", *MEMORY_HEADS), left=(0, 1))
    for ranks, *peaks in memory_cells(account):
        table.add_row(ranks, *peaks)
    return table


# Two runs side by side: what got slower or faster, what is new or gone, and where the time went
