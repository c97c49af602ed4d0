"""Two runs side by side, as a page."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ddpquiz.events.comparison import Amounts, ComparedRun, Comparison, CostChange
from ddpquiz.events.formatting import format_bytes, format_seconds
from ddpquiz.plural import plural
from ddpquiz.terminal.kit.layout import new_table, section
from ddpquiz.terminal.kit.style import plain, prose

_LINES = 10  # of each part
_KINDS = ("compute", "communication", "waiting")
SAME = (
    "The runs do not differ: they make the same calls with the same bytes, and their times differ by no more than "
    "those of two runs of one script."
)


def comparison_page(comparison: Comparison, names: Sequence[str]) -> RenderableType:
    """Draw how two runs differ; `names` are those of their files."""
    parts: list[RenderableType] = [_header(name, each) for name, each in zip(names, _labeled(comparison), strict=True)]
    if not comparison.differs:
        return Group(*parts, Text(), prose(SAME))
    parts += section("Time of an average rank", _time_changes(comparison))
    for title, changes in (("Slower in B", comparison.slower), ("Faster in B", comparison.faster)):
        if changes:
            parts += section(title, *_changes(comparison, changes))
    for title, changes in (("Only in B", comparison.new), ("Only in A", comparison.gone)):
        if changes:
            parts += section(title, *_amounts(changes))
    if counts := [each for each in comparison.both if not each.same_calls]:
        parts += section("Different calls or bytes, per rank", *_counts(counts))
    if comparison.kinds:
        parts += section("By kind of operation, time of an average rank", _kinds(comparison))
    return Group(*parts, *section("Compute time of each rank", _computing(comparison)))


def _labeled(comparison: Comparison) -> tuple[tuple[str, ComparedRun], tuple[str, ComparedRun]]:
    return ("A", comparison.a), ("B", comparison.b)


def _header(name: str, labeled: tuple[str, ComparedRun]) -> Text:
    label, run = labeled
    ranks = plural(run.ranks, "rank")
    text = Text.assemble((label, "head"), plain(f"  {name}: {ranks}, {format_seconds(run.seconds)}"))
    return text.append(plain(f"; it failed: {run.why}"), style="bad") if run.why else text


def _time_changes(comparison: Comparison) -> Table:
    table = new_table(("", "A", "B", "B - A", "of A's time"))
    for kind in _KINDS:
        table.add_row(kind, *_durations(comparison, comparison.a.average(kind), comparison.b.average(kind)))
    table.add_row("all", *_durations(comparison, comparison.a.lifetime, comparison.b.lifetime))
    return table


def _durations(comparison: Comparison, first: float, second: float) -> tuple[str, ...]:
    change = second - first
    return _seconds(first), _seconds(second), _signed(change), _percent(comparison.share(change)) if change else "-"


def _percent(share: float) -> str:
    return f"{round(share, 2) + 0.0:+.0%}"  # not -0%


def _changes(comparison: Comparison, changes: list[CostChange]) -> list[RenderableType]:
    table = new_table(("line", "operation", "A", "B", "B - A", "of A's time"), left=(0, 1))
    for change in changes[:_LINES]:
        first, second = (amounts.seconds if amounts else 0.0 for amounts in (change.a, change.b))
        table.add_row(*_names(change), *_durations(comparison, first, second))
    return _limited(table, changes)


def _amounts(changes: list[CostChange]) -> list[RenderableType]:
    table = new_table(("line", "operation", "calls", "bytes", "time", "of it waiting"), left=(0, 1))
    for change in changes[:_LINES]:
        cost = change.a or change.b
        if cost:
            table.add_row(*_names(change), *_count(cost), _seconds(cost.seconds), _seconds(cost.waiting))
    return _limited(table, changes)


def _counts(changes: list[CostChange]) -> list[RenderableType]:
    table = new_table(("line", "operation", "calls A", "calls B", "bytes A", "bytes B"), left=(0, 1))
    for change in changes[:_LINES]:
        if change.a and change.b:
            (calls, size), (calls_b, size_b) = _count(change.a), _count(change.b)
            table.add_row(*_names(change), calls, calls_b, size, size_b)
    return _limited(table, changes)


def _kinds(comparison: Comparison) -> Table:
    table = new_table(("", "A", "B", "B - A", "waiting A", "waiting B"))
    for each in comparison.kinds:
        first, second = ((one.seconds, one.waiting) if one else (0.0, 0.0) for one in (each.a, each.b))
        table.add_row(
            plain(each.op), _seconds(first[0]), _seconds(second[0]), _signed(each.difference),
            _seconds(first[1]), _seconds(second[1]),
        )  # fmt: skip
    return table


def _computing(comparison: Comparison) -> Table:
    table = new_table(("", "A", "B", "B - A", "of A's time"))
    first, second = ({each.rank: each.compute for each in run.times} for run in (comparison.a, comparison.b))
    for rank in sorted({*first, *second}):
        if rank in first and rank in second:
            cells = _durations(comparison, first[rank], second[rank])
        else:
            cells = (*(_seconds(times[rank]) if rank in times else "no rank" for times in (first, second)), "-", "-")
        table.add_row(f"rank {rank}", *cells)
    return table


def _names(each: CostChange) -> tuple[str, str]:
    lines = [str(line) for line in dict.fromkeys((each.line_a, each.line_b)) if line]
    place = f"{each.file}:{' → '.join(lines)}" if lines else "-"
    return plain(place), plain(f"{each.op}, DDP" if each.is_ddp else each.op)


def _count(cost: Amounts) -> tuple[str, str]:
    return f"{cost.calls:,.0f}" if cost.calls.is_integer() else f"{cost.calls:,.1f}", format_bytes(cost.bytes)


def _seconds(seconds: float) -> str:
    return format_seconds(seconds) if seconds else "-"


def _signed(change: float) -> str:
    return f"{'+' if change > 0 else '-'}{format_seconds(abs(change))}" if change else "-"


def _limited(table: Table, changes: list[CostChange]) -> list[RenderableType]:
    more = len(changes) - _LINES
    return [table, Text(f"and {more:,} more", style="quiet")] if more > 0 else [table]
