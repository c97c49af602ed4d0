"""`ddpquiz bench`: measure the collectives of this machine."""

from __future__ import annotations

import json
import platform
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ddpquiz.bench.bench_page import bench_page
from ddpquiz.bench.bench_run import BenchRun, BenchSamples, default_counts
from ddpquiz.bench.measurements import OPS, BenchGroup, MachineBench, SizeTime
from ddpquiz.bench.saved_bench import save_bench
from ddpquiz.cli.output import say
from ddpquiz.errors import UserError
from ddpquiz.terminal.kit import pager, style

USUAL = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send")
SIZES = "8..16M"
_STEP = 4  # between one size and the next
_MOST_SIZE = 1 << 34
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """What to measure, checked."""

    ops: tuple[str, ...]
    sizes: tuple[int, ...]
    counts: tuple[int, ...]  # numbers of ranks; none: the default
    seconds: float


def bench(
    op: Annotated[
        str, typer.Option("--op", help="Operations, such as all_reduce,send; `all` measures three more.")
    ] = ",".join(USUAL),
    sizes: Annotated[
        str, typer.Option("--sizes", help="Message bytes, FIRST..LAST, each 4 times the one before, such as 8..64M.")
    ] = SIZES,
    nproc: Annotated[
        str, typer.Option("--nproc", "-n", help="Counts of ranks, such as 2,4. [default: 2, and one per GPU or 4]")
    ] = "",
    device: Annotated[str, typer.Option("--device", help="Where the ranks run: auto, cpu or cuda.")] = "auto",
    seconds: Annotated[float, typer.Option("--seconds", help="How many seconds to spend measuring, in total.")] = 40.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Measure collectives on ranks of this machine: time, bandwidth, and the line alpha + beta x size.

    The result is saved. `learn comm-cost-model` and `run --summary` use it. Ctrl-C ends the measurement
    early and saves what was measured. On several machines: torchrun ... -m ddpquiz.bench
    """
    options = read_options(op, sizes, nproc, seconds)
    if device not in ("auto", "cpu", "cuda"):
        raise typer.BadParameter(f"{device!r} is not one of auto, cpu, cuda.", param_hint="--device")
    counts = options.counts or tuple(default_counts(device))
    runs = [BenchRun(device, ranks, options.ops, options.sizes, options.seconds / len(counts)) for ranks in counts]
    interrupted, failed = False, None
    try:
        _measure(runs, options.seconds, is_quiet=as_json)
    except KeyboardInterrupt:
        interrupted = True
    except UserError as wrong:
        failed = wrong
    groups = [group_of(run.samples) for run in runs if run.samples.seconds]
    if groups or not failed:
        finish(groups, as_json=as_json, refused=[run.samples for run in runs])
    if failed:
        raise failed
    if interrupted:
        raise typer.Exit(130)


def _measure(runs: Sequence[BenchRun], seconds: float, *, is_quiet: bool) -> None:
    """Measure one number of ranks after the other, with a progress bar in a terminal."""
    out = style.complaints()
    columns = (TextColumn("{task.description:<28}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=out, disable=is_quiet or not out.is_terminal, transient=True) as progress:
        task = progress.add_task("starting ranks", total=seconds)
        for number, run in enumerate(runs):
            share, began = seconds / len(runs), 0.0
            for doing in run.follow():
                began = began or (time.monotonic() if run.samples.seconds else 0.0)
                passed = min(share, time.monotonic() - began) if began else 0.0
                what = f"{run.samples.ranks} ranks: {doing}"
                progress.update(task, completed=number * share + passed, description=what)


def finish(groups: Sequence[BenchGroup], *, as_json: bool, refused: Sequence[BenchSamples] = ()) -> None:
    """Save what was measured, and print it; UserError, after that, if it cannot be saved."""
    unsaved: UserError | None = None
    try:
        for group in groups:
            save_bench(group)
    except UserError as wrong:
        unsaved = wrong
    if as_json:
        say(json.dumps(MachineBench(tuple(groups)).as_json()))
    elif not groups:
        say("Nothing was measured.")
    else:
        out = style.console()
        reasons = {op: why for each in refused for op, why in each.refused.items()}
        pager.show_paged(out, bench_page(groups, min(out.width, 100), reasons))
    if unsaved:
        raise unsaved


def group_of(samples: BenchSamples, machines: int = 1) -> BenchGroup:
    """What the samples of one number of ranks say, measured now on this host."""
    ops = {
        op: tuple(SizeTime.of(size, seconds) for size, seconds in found.items())
        for op in OPS
        if (found := samples.of_op(op))
    }
    return BenchGroup(
        samples.device, samples.backend, samples.ranks, machines, platform.node(), samples.torch,
        datetime.now(UTC).isoformat(timespec="seconds"), ops,
    )  # fmt: skip


def read_options(op: str, sizes: str, nproc: str, seconds: float) -> BenchOptions:
    """What the options ask for; BadParameter says what does not fit."""
    ops = OPS if op == "all" else tuple(dict.fromkeys(op.replace("-", "_").replace(" ", "").split(",")))
    for each in ops:
        if each not in OPS:
            raise typer.BadParameter(f"{each!r} is not one of {', '.join(OPS)}.", param_hint="--op")
    counts = nproc.replace(" ", "").split(",") if nproc else []
    for count in counts:
        if not count.isdecimal() or not 2 <= int(count) <= 64:
            raise typer.BadParameter(f"{count!r} is not a number of ranks from 2 to 64.", param_hint="--nproc")
    if not 0 < seconds <= 3600:
        raise typer.BadParameter(f"{seconds:g} is not a number of seconds up to 3600.", param_hint="--seconds")
    return BenchOptions(
        ops=ops, sizes=tuple(read_sizes(sizes)), counts=tuple(sorted(set(map(int, counts)))), seconds=seconds
    )


def read_sizes(text: str) -> Iterator[int]:
    """Yield the sizes that a text such as `8..64M` means: from the first in steps of 4, and the last."""
    first, _, last = text.upper().replace(" ", "").partition("..")
    low, high = _bytes(first), _bytes(last or first)
    if low is None or high is None or not 4 <= low <= high <= _MOST_SIZE:
        raise typer.BadParameter(
            f"{text!r} is not a range of sizes from 4 bytes to 16G, such as 8..64M.", param_hint="--sizes"
        )
    while low < high:
        yield low
        low *= _STEP
    yield high


def _bytes(word: str) -> int | None:
    found = re.fullmatch(r"(\d{1,12})([KMG]?)(I?B)?", word)
    return int(found[1]) * _UNITS[found[2]] if found else None
