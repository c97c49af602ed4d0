"""Tables of several plans: a search, a curve over GPUs, a comparison, and published runs beside predictions."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ddpquiz.planning.explanation import GIB
from ddpquiz.planning.plan import Plan
from ddpquiz.planning.search import Found
from ddpquiz.planning.stage_time import Machine
from ddpquiz.planning.step_traffic import Job
from ddpquiz.planning.validation import Verdict, fails, mean_step_error
from ddpquiz.terminal.pages.plan_page import amount

_COLUMNS = 30  # of a bar in the curve


def _table(names: Sequence[str], left: int = 1) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="title")
    for number, name in enumerate(names):
        table.add_column(name, justify="left" if number < left else "right", no_wrap=number >= left)
    return table


def found_page(found: Found, gpus: int, job: Job, machine: Machine, *, fewest: bool) -> RenderableType:
    """Draw the best layouts of a search, and why the others were refused."""
    name = machine.hardware.name
    title = f"{job.model.name}, {job.sizes.batch:,} x {job.sizes.sequence:,} tokens, on {gpus:,} x {name}"
    lines: list[RenderableType] = [Text(title, style="head")]
    if fewest:
        lines.append(Text(f"{gpus:,} is the smallest number of GPUs on which a layout fits (1, 2, 4, then machines)."))
    lines.append(Text(f"{found.tried:,} layouts tried, {found.fitting:,} fit. The best, by the time of a step:"))
    lines.append(_best(found.plans) if found.plans else _nothing(found, machine))
    if found.plans:
        best = found.plans[0]
        share = getattr(best.time, best.limit) / best.time.total
        lines.append(Text(f"What limits the best one, after computing: {best.limit} ({share:.1%} of the step).", "head"))
        lines.append(Text(f"Its page: {command(best, machine)}", style="code"))
    lines += [Text("Why not the others", style="title"), *_refusals(found)]
    return Group(*lines)


def _best(plans: Sequence[Plan]) -> RenderableType:
    names = ("tp", "cp", "pp", "dp", "ep", "ZeRO", "mb", "pipeline", "recompute", "GiB", "step s", "MFU", "limit")
    table = _table(names, left=0)
    for plan in plans:
        layout = plan.job.layout
        pipeline = "-" if layout.pp == 1 else f"{layout.schedule}" + (f" x{layout.chunks}" if layout.chunks > 1 else "")
        sizes = (layout.tp, layout.cp, layout.pp, layout.dp, layout.ep, layout.zero, layout.micro_batch)
        numbers = (amount(plan.memory.total / GIB), amount(plan.time.total), f"{plan.mfu:.1%}", plan.limit)
        table.add_row(*map(str, sizes), pipeline, layout.recompute, *numbers)
    return table


def _nothing(found: Found, machine: Machine) -> Text:
    if found.smallest is None:
        return Text("No layout divides the model and the batch.", style="bad")
    size, layout = found.smallest
    least = f"{size / GIB:,.1f} GiB of {machine.hardware.memory / GIB:g}"
    return Text(f"None fits. The smallest needs {least}: {layout}. More GPUs, or a smaller batch, would do.", style="bad")


def _refusals(found: Found) -> Iterator[Text]:
    for reason, count in found.refused.most_common():
        yield Text(f"{count:>8,}  {reason}; for instance: {found.examples[reason]}")


def command(plan: Plan, machine: Machine) -> str:
    """Return the command that shows the page of a plan, as far as the layout goes."""
    layout = plan.job.layout
    axes = ",".join(f"{axis}={size}" for axis in ("tp", "cp", "pp", "ep") if (size := getattr(layout, axis)) > 1)
    options = [f"--gpus {layout.gpus}", f"--zero {layout.zero}", f"--micro-batch {layout.micro_batch}"]
    options += [f"--layout {axes}"] if axes else []
    options += [f"--pipeline {layout.schedule}"] if layout.pp > 1 else []
    options += [f"--chunks {layout.chunks}"] if layout.chunks > 1 else []
    options += [f"--recompute {layout.recompute}", f"--batch {plan.job.sizes.batch}", f"--seq {plan.job.sizes.sequence}"]
    del machine
    return f"ddpquiz plan ... {' '.join(options)}"


def scale_page(plans: Sequence[Plan | tuple[int, str]]) -> RenderableType:
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
    note = "The batch stays the same (strong scaling); more GPUs lengthen dp. Efficiency: tokens/s/GPU against the first row."
    return Group(table, Text(note, style="quiet"))


def comparison(plan: Plan, other: Plan) -> RenderableType:
    """Draw two plans side by side."""
    table = _table(("", "first", "second", "change"))
    for name in ("weights", "gradients", "optimizer", "activations", "logits", "buffers", "total"):
        _row(table, f"{name}, GiB", getattr(plan.memory, name) / GIB, getattr(other.memory, name) / GIB)
    for name in ("compute", "tp", "cp", "ep", "pp", "dp", "bubble", "optimizer", "total"):
        shown = "step" if name == "total" else "update" if name == "optimizer" else name
        _row(table, f"{shown}, s", getattr(plan.time, name), getattr(other.time, name))
    _row(table, "MFU, %", 100 * plan.mfu, 100 * other.mfu)
    fits = " and ".join("fits" if each.fits else "does not fit" for each in (plan, other))
    heads = [Text(f"first: {plan.job.layout}", "head"), Text(f"second: {other.job.layout}", "head")]
    return Group(*heads, table, Text(f"In memory: {fits}."))


def _row(table: Table, name: str, first: float, second: float) -> None:
    if first or second:
        change = f"{(second - first) / first:+.0%}" if first else "new"
        table.add_row(name, amount(first) if first else "0", amount(second) if second else "0", change)


def validation_page(verdicts: Sequence[Verdict]) -> RenderableType:
    """Draw published runs beside predictions, with the reason of each miss."""
    table = _table(("run", "what", "published", "predicted", "error"), left=2)
    for each in verdicts:
        run, shown = each.run, Text(each.error_text, style="bad" if fails(each) else "good")
        unit = run.unit
        fitted = " (fitted)" if run.fit else ""
        table.add_row(run.name + fitted, run.what, f"{run.published:,g} {unit}", f"{amount(each.predicted)} {unit}", shown)
    notes = [Text(f"{each.run.name}, {each.run.what}: {each.run.miss}") for each in verdicts if fails(each)]
    mean = mean_step_error(verdicts)
    summary = Text(f"Step times that the fit did not see: mean error {mean:.1%}; the bar is 5%.", style="head")
    misses = f"{len(notes)} of {len(verdicts)} rows miss their bar:"
    return Group(table, summary, Text(misses, style="title"), *notes)
