"""The page of `ddpquiz bench`: the line of each operation, then the times of its sizes, drawn beside them."""

import math
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ddpquiz.bench.measurements import (
    FITS,
    AchievedSpeed,
    BenchGroup,
    CostFit,
    CostLine,
    MachineBench,
    SizeTime,
    bus_bandwidth,
)
from ddpquiz.events.formatting import format_bytes, format_place, format_seconds
from ddpquiz.terminal.kit.layout import Narrowing, Shortened, new_table, section
from ddpquiz.terminal.kit.style import plain, prose

_BUSY = 0.5  # a size whose quartiles are farther apart than this share of its median was disturbed
_RATES = (("GB/s", 1e9), ("MB/s", 1e6))
_LEAST = 16  # columns of a drawing
_TABLE = 50  # columns beside it


def bench_page(groups: Sequence[BenchGroup], width: int, refused: Mapping[str, str]) -> RenderableType:
    """Draw what was measured; `refused` says why operations could not run."""
    parts: list[RenderableType] = []
    for group in groups:
        parts += [Text(_heading(group), style="head"), _lines(group)]
        parts += [prose(f"{op} cannot run here: {why}", "warn") for op, why in refused.items()]
        parts += [prose(note, "warn") for note in _notes(group)]
    parts.append(prose(_LEGEND, "quiet"))
    for group in groups:
        for op, times in group.ops.items():
            title = f"{op}, {group.ranks} ranks"
            parts += section(title, _times(group, op, times, max(_LEAST, width - _TABLE)))
    return Group(*parts)


_LEGEND = (
    "A line predicts `seconds = alpha + bytes / bandwidth`. Sizes are counted as in nccl-tests: for gathers and "
    "scatters, all parts together. `send` is one way. Times are medians, and ± is half the interquartile range. "
    "Drawn on a logarithmic scale: `●` the median, `─` from the first to the third quartile, `+` the line."
)


def _heading(group: BenchGroup) -> str:
    """What was measured, in a line."""
    where = f" on {group.machines} machines" if group.machines > 1 else ""
    kind = "GPU" if group.device == "cuda" else "CPU"
    return plain(f"{group.ranks} ranks{where}, {kind}, {group.backend}, {group.torch}, {group.measured[:16]} UTC")


def _line_text(line: CostLine) -> str:
    """Write a line: `340 µs + size / 1.2 GB/s`."""
    if not line.beta:
        return format_seconds(line.alpha)
    if not line.alpha:
        return f"size / {_rate(1 / line.beta)}"
    sign = "-" if line.alpha < 0 else ""
    return f"{sign}{format_seconds(abs(line.alpha))} + size / {_rate(1 / line.beta)}"


def _rate(bytes_per_second: float) -> str:
    """Write a bandwidth in powers of ten, as nccl-tests does: `1.25 GB/s`."""
    unit, scale = next(((unit, scale) for unit, scale in _RATES if bytes_per_second >= 0.9995 * scale), ("kB/s", 1e3))
    amount = bytes_per_second / scale
    return f"{amount:.3g} {unit}" if amount < 999.5 else f"{amount:,.0f} {unit}"


def _lines(group: BenchGroup) -> Table:
    table = new_table(("operation", "sizes", "line", "mean error"), left=(0, 2), gap=1)
    for op in group.ops:
        found = group.fit_of(op)
        if found is None:
            table.add_row(op, "", Text("three sizes are needed", style="quiet"), "")
            continue
        for number, line in enumerate(found.lines):
            first = number == 0
            sizes = ("" if first else "larger") if math.isinf(line.until) else f"up to {format_bytes(line.until)}"
            table.add_row(op if first else "", sizes, _line_text(line), f"{found.mean_error:.0%}" if first else "")
    return table


def _notes(group: BenchGroup) -> Iterator[str]:
    fits = {op: found for op in group.ops if (found := group.fit_of(op))}
    two = [op for op, found in fits.items() if len(found.lines) > 1]
    if two:
        below = any(line.alpha < 0 for op in two for line in fits[op].lines)
        start = " The line for large sizes may start below 0, because it does not apply to small ones." if below else ""
        yield f"One line does not fit {', '.join(two)}: small and large sizes have a line each.{start}"
    from_zero = [op for op, found in fits.items() if found.lines[0].beta and not found.lines[0].alpha]
    if from_zero:
        yield (
            f"The line of {', '.join(from_zero)} begins at 0: these times do not show what a call costs before its "
            f"first byte. Measure smaller sizes to see that."
        )
    poor = [op for op, found in fits.items() if found.mean_error > FITS]
    if poor:
        yield f"The lines of {', '.join(poor)} miss the times by more than {FITS:.0%} on average."
    times = [each for sizes in group.ops.values() for each in sizes]
    disturbed = sum(each.high - each.low > _BUSY * each.seconds for each in times)
    if disturbed > len(times) / 4:
        yield (
            f"The times of {disturbed} of {len(times)} sizes vary by more than {_BUSY:.0%}: other programs run on this "
            f"machine, or it has fewer cores than ranks. Close them and measure again."
        )


def _times(group: BenchGroup, op: str, times: Sequence[SizeTime], width: int) -> Narrowing:
    found = group.fit_of(op)
    table = new_table(("size", "time", "±", "algbw", "busbw", ""), left=(5,), gap=1)
    ends = math.log(min(each.low for each in times)), math.log(max(each.high for each in times))
    for each in times:
        spread = f"{(each.high - each.low) / 2 / each.seconds:.0%}"
        speeds = _rate(each.algorithm_bandwidth), _rate(bus_bandwidth(op, group.ranks, each))
        drawn = _drawing(each, found, ends, width)
        table.add_row(format_bytes(each.size), format_seconds(each.seconds), spread, *speeds, drawn)
    return Narrowing(table, (5, 4))  # the drawing, then busbw, which follows from algbw


def _drawing(time: SizeTime, found: CostFit | None, ends: tuple[float, float], width: int) -> Text:
    """Draw median, quartiles and predicted time of a size on a logarithmic scale."""
    low, high = ends

    def column(seconds: float) -> int:
        share = (math.log(seconds) - low) / ((high - low) or 1.0)
        return min(width - 1, max(0, round(share * (width - 1))))

    cells = [(" ", "")] * width
    for at in range(column(time.low), column(time.high) + 1):
        cells[at] = ("─", "quiet")
    if found is not None and (predicted := found.seconds(time.size)) > 0:
        cells[column(predicted)] = ("+", "warn")
    cells[column(time.seconds)] = ("●", "accent")
    return Text.assemble(*cells)


def speeds_section(speeds: Sequence[AchievedSpeed]) -> Group:
    """Draw what calls of a run reached beside what the machine can do."""
    table = new_table(("", "", "bytes", "took", "possible", "algbw", "possible"), left=(0, 1), gap=1)
    for each in speeds:
        place = plain(format_place(each.file, each.line)) if each.line else "-"
        times = format_seconds(each.seconds), format_seconds(each.possible)
        rates = _rate(each.size / each.seconds), _rate(each.size / each.possible) if each.possible else "-"
        table.add_row(Shortened(place), each.op, format_bytes(each.size), *times, *rates)
    fitting = Narrowing(table, (6, 5))  # the rates, which follow from bytes and times
    return Group(*section("On this machine, by `ddpquiz bench`: a call from when all ranks are in it", fitting))


def lines_on_machine(bench: MachineBench) -> list[Text]:
    """Return in sentences what an all-reduce costs on this machine, or how to find out."""
    found = [
        prose(
            f"`all_reduce` of {group.ranks} ranks ({group.backend}): "
            + " or, for large tensors, ".join(map(_line_text, fitted.lines))
        )
        for group in bench.groups
        if (fitted := group.fit_of("all_reduce"))
    ]
    how = "`ddpquiz bench` measures them again." if found else "`ddpquiz bench` measures a and B of your machine."
    return [*found, prose(how, "quiet")]
