"""The account of a run as titled tables and lists of sentences.

Terminal and page draw the same sections and cells, each in its own way.
"""

from collections import Counter
from dataclasses import dataclass

from ddpquiz.events.formatting import format_bytes, format_place, format_ranks, format_seconds
from ddpquiz.events.run_summary import LineCost, RunSummary
from ddpquiz.events.timeline import PICKLING, RankTime

TIME_HEADS = ("compute", "communication", "waiting", "overlapped")
LINE_HEADS = ("calls", "tensor bytes", "time", "of it waiting")
TIME_TITLE = "Time by rank (waiting includes forming groups; overlapped: during compute)"
LINE_TITLE = "Communication, line by line (times of all ranks added up)"
MEMORY_TITLE = "Peak memory of each rank"
MEMORY_HEADS = ("process", "GPU tensors")
GROUP_TITLE = "Bytes sent, by group (as if each collective used a ring)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A part of a report: a table whose first cells name the rows, or sentences."""

    title: str
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    sentences: tuple[str, ...] = ()


def summary_sections(account: RunSummary) -> list[Section]:
    """Time by rank, the costliest lines, bytes by group, what does not fit, and advice: what is not empty."""
    times = tuple((f"rank {each.rank}", *time_cells(each)) for each in account.ranks)
    lines = tuple((*line_names(each), *line_cells(each)) for each in account.lines)
    more = (f"and {account.other_lines} more",) if account.other_lines else ()
    costliest = (str(account.costliest),) if account.costliest else ()
    every = (
        Section(title="What made ranks wait", sentences=costliest),
        Section(title=TIME_TITLE, heads=("", *TIME_HEADS), rows=times),
        Section(title=LINE_TITLE, heads=("line", "operation", *LINE_HEADS), rows=lines, sentences=more),
        Section(title=GROUP_TITLE, heads=("group", "bytes"), rows=group_cells(account)),
        Section(title=MEMORY_TITLE, heads=("ranks", *MEMORY_HEADS), rows=memory_cells(account)),
        Section(title="What does not match", sentences=account.mismatches),
        Section(title="Advice", sentences=account.advice),
    )
    return [each for each in every if each.rows or each.sentences]


def group_cells(account: RunSummary) -> tuple[tuple[str, str], ...]:
    """The ranks of each group that sent bytes, and how many; groups of the same ranks are told apart."""
    groups = [each for each in account.groups if each.bytes]
    alike = Counter(each.members for each in groups)
    names = (
        format_ranks(each.members) + (f" (group {each.group or 0})" if alike[each.members] > 1 else "")
        for each in groups
    )
    return tuple((name, format_bytes(each.bytes)) for name, each in zip(names, groups, strict=True))


def time_cells(time: RankTime) -> tuple[str, ...]:
    """The cells below TIME_HEADS: seconds, and their share of the rank's time."""
    seconds = (time.compute, time.communication, time.waiting)
    shares = (f"{format_seconds(part)} {part / time.lifetime:4.0%}" if part else "-" for part in seconds)
    return (*shares, format_seconds(time.overlapped) if time.overlapped else "-")


def memory_cells(account: RunSummary) -> tuple[tuple[str, ...], ...]:
    """Rows of ranks whose peaks read the same, with the cells below MEMORY_HEADS."""
    rows: dict[tuple[str, str], list[int]] = {}
    for each in account.memory:
        peaks = format_bytes(each.process), format_bytes(each.gpu) if each.gpu else "-"
        rows.setdefault(peaks, []).append(each.rank)
    return tuple((format_ranks(ranks), *peaks) for peaks, ranks in rows.items())


def line_names(cost: LineCost) -> tuple[str, str]:
    """The place of a line, and its operation."""
    place = format_place(cost.file, cost.line) if cost.line else "-"
    return place, f"{cost.op}, DDP" if cost.is_ddp else cost.op


def line_cells(cost: LineCost) -> tuple[str, ...]:
    """The cells below LINE_HEADS."""
    calls = f"{cost.calls // cost.ranks:,} x {cost.ranks}"
    lasted = format_seconds(cost.seconds) if cost.seconds else "-"  # no rank waited for it
    brought = "-" if cost.op == PICKLING else format_bytes(cost.bytes)  # its collectives bring them
    return calls, brought, lasted, format_seconds(cost.waiting) if cost.waiting else "-"
