"""Tables of several plans: a search, a curve over GPUs, and a comparison."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ddpquiz.planning.memory import STATE_BYTES
from ddpquiz.planning.memory_lines import GIB
from ddpquiz.planning.plan import Plan
from ddpquiz.planning.search import Found, even_states
from ddpquiz.planning.stage_time import Accelerator
from ddpquiz.planning.step_traffic import Job
from ddpquiz.terminal.kit.style import code
from ddpquiz.terminal.pages.plan_page import amount, shares

_COLUMNS = 30  # of a bar in the curve
LEGEND = (
    "dp splits the batch, tp matrices, pp layers, cp sequences; ZeRO shards over dp x cp ranks. mb: micro-batch. MFU:"
    " the share of the GPUs' peak that the model uses. overhead: what takes the most time besides computing. See"
    " `ddpquiz learn choosing-parallelism`."
)
_ASSUMED = (
    "Assumes that computing hides the traffic of dp, pp and cp; --no-overlap assumes the opposite. Layouts within a few"
    " percent count as equal, since predictions miss published runs by as much."
)
_FIT = {
    (True, True): "Both fit.",
    (True, False): "The first fits, the second does not.",
    (False, True): "The first does not fit, the second does.",
    (False, False): "Neither fits.",
}


def _table(names: Sequence[str], left: int = 1) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="title")
    for number, name in enumerate(names):
        table.add_column(name, justify="left" if number < left else "right", no_wrap=number >= left)
    return table


def found_page(found: Found, gpus: int, start: str, before: int | None = None) -> RenderableType:
    """Draw the best layouts of a search, and why the others were refused.

    `start` is the command with the options of the model; `before` the next smaller number of GPUs, if `gpus` is the
    smallest on which a layout fits.
    """
    lines: list[RenderableType] = []
    if found.plans:
        best = found.plans[0]
        lines += [Text(title(best.job, best.machine, gpus), style="head"), *_smallest(best, gpus, before)]
    tried = f"{found.tried:,} layouts tried, {found.fitting:,} fit."
    lines.append(Text(f"{tried} The fastest of each way to split the GPUs:" if found.plans else tried))
    lines.append(_best(found.plans) if found.plans else _nothing(found))
    if found.plans:
        lines.append(Text(LEGEND, style="quiet"))
        lines.append(Text(f"Of the best layout's step: {shares(best)}", style="head"))
        lines.append(Text(_ASSUMED, style="quiet"))
        lines += [Text("The page of the best layout:"), code(f"{start} {arguments(best)}")]
    return Group(*lines, Text("Why not the others", style="title"), _refusals(found))


def title(job: Job, machine: Accelerator, *gpus: int) -> str:
    """Name a model, the tokens of a step and the GPUs, of which there are one number or a first and a last one."""
    tokens = f"{job.sizes.batch:,} x {job.sizes.sequence:,} tokens"
    return (
        f"{job.model.name}, {tokens}, on {' to '.join(f'{each:,}' for each in sorted(gpus))} x {machine.hardware.name}"
    )


def _smallest(best: Plan, gpus: int, before: int | None) -> Iterator[Text]:
    if before is None:
        return
    yield Text(f"A layout fits on {gpus:,}, and on no smaller number of whole machines or of 1, 2 or 4 GPUs.")
    if before:
        least, limit_of = even_states(best.job, before) / GIB, best.capacity / GIB
        why = "; no layout fits the rest beside them" if least <= limit_of else ""
        held = STATE_BYTES[best.job.sizes.states].total
        yield Text(
            f"On {before:,}, weights, gradients and optimizer need {least:,.1f} GiB per GPU (--states: {held} bytes a"
            f" parameter); the limit is {limit_of:,.1f}{why}."
        )


def _best(plans: Sequence[Plan]) -> RenderableType:
    names = ["tp", "cp", "pp", "dp", "ep", "ZeRO", "mb", "pipeline", "recompute", "GiB", "step s", "MFU", "overhead"]
    has_experts = plans[0].job.model.experts is not None
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="title")
    for name in names:
        if name != "ep" or has_experts:
            table.add_column(name, justify="right", no_wrap=True)
    for plan in plans:
        layout = plan.job.layout
        pipeline = "-" if layout.pp == 1 else f"{layout.schedule}" + (f" x{layout.chunks}" if layout.chunks > 1 else "")
        experts = (layout.ep,) if has_experts else ()
        sizes = (layout.tp, layout.cp, layout.pp, layout.dp, *experts, layout.zero, layout.micro_batch)
        numbers = (amount(plan.memory.total / GIB), amount(plan.time.total), f"{plan.mfu:.1%}", plan.limit)
        table.add_row(*map(str, sizes), pipeline, layout.recompute, *numbers)
    return table


def _nothing(found: Found) -> Text:
    if found.smallest is None:
        return Text("No layout divides the model and the batch. Take whole machines, such as 8 or 16 GPUs.", "bad")
    size, layout = found.smallest
    return Text(
        f"No layout fits. The smallest needs {size / GIB:,.1f} GiB a GPU: {layout}."
        " Take more GPUs, fewer tokens, or fewer bytes per parameter (--states).",
        "bad",
    )


def _refusals(found: Found) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True, min_width=7)
    for reason, count in found.refused.most_common():
        table.add_row(f"{count:,}", f"{reason}. Example: {found.examples[reason]}")
    return table


def arguments(plan: Plan) -> str:
    """Return the options of `ddpquiz plan` that describe a layout and a batch."""
    layout, sizes = plan.job.layout, plan.job.sizes
    axes = ",".join(f"{axis}={size}" for axis in ("tp", "cp", "pp", "ep") if (size := getattr(layout, axis)) > 1)
    options = [f"--gpus {layout.gpus}"]
    options += [f"--layout {axes}"] if axes else []
    options += [f"--zero {layout.zero} --micro-batch {layout.micro_batch}"]
    options += [f"--pipeline {layout.schedule}"] if layout.pp > 1 else []
    options += [f"--chunks {layout.chunks}"] if layout.chunks > 1 else []
    options += [f"--recompute {layout.recompute} --batch {sizes.batch} --seq {sizes.sequence}"]
    return " ".join(options)


def scale_page(plans: Sequence[Plan | tuple[int, str]], job: Job, machine: Accelerator) -> RenderableType:
    """Draw throughput and efficiency over the number of GPUs; the bar is the efficiency against the first plan."""
    table = _table(("GPUs", "step s", "M tokens/s", "MFU", "efficiency"), left=0)
    table.add_column("")
    first = next((plan for plan in plans if isinstance(plan, Plan)), None)
    for plan in plans:
        if not isinstance(plan, Plan):
            table.add_row(f"{plan[0]:,}", "-", "-", "-", "-", Text(plan[1], style="quiet"))
            continue
        share = plan.tokens_per_second / first.tokens_per_second if first else 1.0
        drawn = "━" * max(1, min(_COLUMNS, round(share * _COLUMNS)))
        gpus, rate = plan.job.layout.gpus, plan.tokens_per_second * plan.job.layout.gpus / 1e6
        table.add_row(
            f"{gpus:,}", amount(plan.time.total), amount(rate), f"{plan.mfu:.1%}", f"{share:.0%}", Text(drawn, "accent")
        )
    counts = [each.job.layout.gpus if isinstance(each, Plan) else each[0] for each in plans]
    heads = [Text(title(job, machine, *{counts[0], counts[-1]}), style="head")]
    if first:
        heads.append(Text(f"{first.job.layout}; the batch stays the same, and only dp grows"))
    note = "Efficiency: tokens/s/GPU against the first row. Collectives are rings, whose latency grows with dp."
    return Group(*heads, table, Text(note, style="quiet"))


def comparison(plan: Plan, other: Plan) -> RenderableType:
    """Draw two plans side by side."""
    table = _table(("", "first", "second", "change"))
    for name in ("weights", "gradients", "optimizer", "activations", "logits", "buffers", "total"):
        _row(table, f"{name}, GiB", getattr(plan.memory, name) / GIB, getattr(other.memory, name) / GIB)
    for name in ("compute", "tp", "cp", "ep", "pp", "dp", "bubble", "optimizer", "total"):
        shown = "step" if name == "total" else "update" if name == "optimizer" else name
        _row(table, f"{shown}, s", getattr(plan.time, name), getattr(other.time, name))
    _row(table, "MFU, %", 100 * plan.mfu, 100 * other.mfu)
    heads = [Text(f"first: {plan.job.layout}", "head"), Text(f"second: {other.job.layout}", "head")]
    return Group(*heads, table, Text(_FIT[plan.fits, other.fits]))


def _row(table: Table, name: str, first: float, second: float) -> None:
    if first or second:
        change = f"{(second - first) / first:+.0%}".replace("-0%", "0%").replace("+0%", "0%") if first else "new"
        table.add_row(name, amount(first) if first else "0", amount(second) if second else "0", change)
