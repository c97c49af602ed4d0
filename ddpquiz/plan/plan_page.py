"""The pages of `ddpquiz plan`: one plan, one of its lines, several plans side by side, and a pipeline's timeline."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ddpquiz.plan.explanation import GIB, PlanLine, lines
from ddpquiz.plan.plan import Fit, Plan, safe_bytes
from ddpquiz.plan.schedule import PipelineRun, Slot
from ddpquiz.plan.search import BEST, SearchResult, least_state_bytes, ways_to_fit
from ddpquiz.plan.step_time import Accelerator
from ddpquiz.plan.traffic import Job, Traffic
from ddpquiz.terminal.kit.layout import Narrowing, new_table
from ddpquiz.terminal.kit.style import code

_MEMORY = (
    ("W", "weights"),
    ("G", "gradients"),
    ("O", "optimizer"),
    ("A", "activations"),
    ("L", "logits"),
    ("B", "buffers"),
)
_TIME = (
    ("C", "compute"),
    ("t", "tp"),
    ("c", "cp"),
    ("e", "ep"),
    ("p", "pp"),
    ("d", "dp"),
    ("b", "bubble"),
    ("u", "optimizer"),
)
_STYLES = {"C": "good", "b": "warn", "u": "quiet", "A": "accent", "L": "warn", "B": "quiet", ".": "quiet"}
_WORDS = {"optimizer": "update"}  # in the bar of time
_LIMITS = {
    "tp": "tensor-parallel traffic",
    "cp": "context-parallel traffic",
    "ep": "traffic to experts",
    "pp": "sends between stages",
    "dp": "data-parallel traffic",
    "bubble": "idle time of the pipeline",
    "optimizer": "the optimizer's memory traffic",
}


_SEARCH = "--search lists the layouts that fit; without --gpus, on the fewest GPUs that work."
_MOST_WAYS = 3
_FIT_STYLES = {Fit.YES: "good", Fit.CLOSE: "warn", Fit.NO: "bad"}


def plan_page(plan: Plan, tokens: float, width: int) -> RenderableType:
    """Draw a plan on one screen of 80 x 24."""
    return Group(
        *_head(plan),
        *_memory(plan, width),
        *_time(plan, width),
        _traffic(plan),
        *_results(plan, tokens),
    )


def _bar(parts: Sequence[tuple[str, float]], whole: float, width: int) -> Text:
    """Draw parts of a whole as letters, the rest as dots."""
    line, drawn, total = Text(), 0, 0.0
    for letter, amount in parts:
        total += amount
        cells = round(total / whole * width) - drawn
        line.append(letter * cells, style=_STYLES.get(letter, "accent"))
        drawn += cells
    return line.append("." * (width - drawn), style="quiet")


def _legend(parts: Sequence[tuple[str, str, float, str]], width: int) -> Text:
    """Name the letters of a bar with their amounts, over as many lines as are needed."""
    texts = [f"{letter} {name} {amount}" for letter, name, value, amount in parts if value]
    rows = [""]
    for text in texts:
        joined = f"{rows[-1]}   {text}" if rows[-1] else text
        if len(joined) <= width:
            rows[-1] = joined
        else:
            rows.append(text)
    return Text("\n".join(rows))


def _head(plan: Plan) -> Iterator[Text]:
    job = plan.job
    count = job.layout.gpus
    yield Text(f"{job.model.name} on {count:,} x {plan.hardware.name}", style="head")
    yield Text(str(job.layout))
    yield Text(
        f"batch {job.sizes.batch:,} x {job.sizes.sequence:,} tokens = {plan.step_tokens / 1e6:,.3g} M;"
        f" {job.micro_batches:,} micro-batches per rank"
    )
    if job.model.origin:
        yield Text(job.model.origin, style="dim")


def _memory(plan: Plan, width: int) -> Iterator[Text]:
    memory, size = plan.memory, plan.hardware.memory
    title = Text("Memory", style="title")
    where = f"stage {memory.stage}, the fullest" if plan.job.layout.pp > 1 else "each rank"
    title.append(f"  {memory.total / GIB:,.1f} GiB on {where}; ", "")
    title.append(f"usable {plan.capacity / GIB:,.1f} of {size / GIB:g} GiB: ", "")
    yield title.append(plan.fit, style=_FIT_STYLES[plan.fit])
    yield _bar([(letter, getattr(memory, name)) for letter, name in _MEMORY], max(size, memory.total), width)
    amounts = [(letter, name, getattr(memory, name)) for letter, name in _MEMORY]
    yield _legend([(*each, amount(each[2] / GIB)) for each in amounts], width)


def _time(plan: Plan, width: int) -> Iterator[Text]:
    time = plan.time
    yield Text("Step", style="title").append(
        f"    {amount(time.total)} s (communication counts only where computing does not hide it)", ""
    )
    yield _bar([(letter, getattr(time, name)) for letter, name in _TIME], time.total, width)
    parts = [(letter, _WORDS.get(name, name), getattr(time, name)) for letter, name in _TIME]
    yield _legend([(*each, amount(each[2])) for each in parts], width)


def _traffic(plan: Plan) -> RenderableType:
    if not plan.traffic:
        return Text("Traffic  one GPU sends nothing")
    table = new_table(("Traffic", "ranks", "calls", "sent/rank", "seconds", "how"), left=(0, 5), style="title")
    for part in plan.traffic:
        where = "in a machine" if plan.in_machine(part) else "across machines"
        how = where if part.op == "send" else f"{_algorithm(part)}, {where}"
        axis = "dp,cp" if part.axis == "dp" and plan.job.layout.cp > 1 else part.axis  # ranks of both sum gradients
        sent, wire = f"{amount(part.sent / GIB)} GiB", amount(plan.wire_seconds(part))
        table.add_row(f"{axis} {part.op}", f"{part.ranks:,}", f"{part.calls:,}", sent, wire, how)
    return Narrowing(table)


def _algorithm(part: Traffic) -> str:
    """Name how the bytes of an operator are counted."""
    return {"send": "point to point", "all_to_all": "pairwise"}.get(part.op, "ring")


def _results(plan: Plan, tokens: float) -> Iterator[Text]:
    each = plan.job.sizes.state_bytes
    result = Text("If it did fit: " if plan.fit is Fit.NO else "")
    result.append(f"{plan.tokens_per_second:,.0f} tokens/s/GPU   ", "head")
    result.append(f"MFU {plan.mfu:.1%}   HFU {plan.hfu:.1%}   {amount(plan.days(tokens))} days for ")
    yield result.append(f"{tokens / 1e12:g} T tokens")
    yield Text(f"Of the step: {_shares(plan)}") if plan.fit is Fit.YES else _ways(plan)
    attention = "half" if plan.machine.causal else "all"
    held = f"W {each.weights}, G {each.gradients}, O {each.optimizer} bytes per parameter"
    counted = f"{held}; {plan.machine.precision}"
    yield Text(f"Counted: {counted}, {attention} of attention's FLOP, GiB = 2^30", style="quiet")
    yield Text(f"--explain LINE: {', '.join(lines())}", style="quiet")


def _ways(plan: Plan) -> Text:
    """Name the changes that make a plan fit, with what each costs."""
    close = f"A prediction may miss by {plan.margin:.0%}. " if plan.fit is Fit.CLOSE else ""
    if close and plan.memory.total <= plan.safe_bytes:
        options = " and ".join(plan.job.sizes.open_options)
        close = f"Name your software with {options}: the one that needs most needs {plan.most / GIB:,.1f} GiB. "
    ways = [
        f"{option} ({way.memory.total / GIB:,.0f} GiB, step {way.time.total / plan.time.total - 1:+.0%})"
        for option, way in ways_to_fit(plan)[:_MOST_WAYS]
    ]
    text = f"It fits with {' or '.join(ways)}." if ways else _SEARCH
    return Text(close + text, style="bad" if plan.fit is Fit.NO else "warn")


def _shares(plan: Plan) -> str:
    """Write what share of a step computing takes, how much of the peak it reaches, and what takes most of the rest."""
    computing, next_ = (getattr(plan.time, name) / plan.time.total for name in ("compute", plan.limit))
    what = f"{_LIMITS[plan.limit]} ({_WORDS.get(plan.limit, plan.limit)})"
    rest = f"; {next_:.1%} {what}" if next_ >= 0.0005 else ""
    return f"{computing:.1%} computing, at {plan.hfu / computing:.0%} of peak{rest}"


def amount(value: float) -> str:
    """Write a number with three digits that count."""
    return f"{value:,.0f}" if value >= 999.5 else f"{value:#.3g}".rstrip(".") if value >= 0.001 else f"{value:.1g}"


def explanation_page(found: PlanLine) -> RenderableType:
    """Draw how a line of a plan comes about."""
    unit = "%" if found.unit == "%" else f" {found.unit}"
    rows = [
        Text(f"{found.line}: {amount(found.value)}{unit}", style="head"),
        Text(f"= {found.formula}"),
        Text(f"= {found.filled}", style="code"),
    ]
    rows += [Text(found.note)] if found.note else []
    rows += [Text(f"Source: {found.source}", style="quiet"), Text(f"Concept: ddpquiz learn {found.concept}")]
    return Group(*rows)


_COLUMNS = 30  # of a bar in the curve, at most
_BESIDE = 50  # columns of its numbers
_LEGEND = (
    "dp splits the batch, tp matrices, pp layers, cp sequences; ZeRO shards over dp x cp ranks. mb: micro-batch. MFU:"
    " the share of the GPUs' peak that the model uses. overhead: what takes the most time besides computing. See"
    " `ddpquiz learn choosing-parallelism`."
)
_ASSUMED = (
    "Assumes that computing hides the traffic of dp, pp and cp; --no-overlap assumes the opposite. Layouts within a few"
    " percent count as equal, since predictions miss published runs by as much."
)


def found_page(found: SearchResult, gpus: int, start: str, before: int | None = None) -> RenderableType:
    """Draw the best layouts of a search, and why the others were refused.

    `start` is the command with the options of the model; `before` the next smaller number of GPUs, if `gpus` is the
    smallest on which a layout fits.
    """
    lines: list[RenderableType] = []
    if found.plans:
        best = found.plans[0]
        lines += [Text(_title(best.job, best.machine, gpus), style="head"), *_smallest(best, gpus, before)]
    tried = f"{found.tried:,} layouts tried, {found.fitting:,} fit."
    lines.append(Text(f"{tried} {_listed(found)}" if found.plans else tried))
    lines.append(_best(found.plans) if found.plans else _nothing(found))
    if found.plans:
        lines.append(Text(_LEGEND, style="quiet"))
        lines.append(Text(f"Of the best layout's step: {_shares(best)}", style="head"))
        lines.append(Text(_ASSUMED, style="quiet"))
        lines += [Text("To see the plan of the best layout:"), code(f"{start} {_arguments(best)}")]
    return Group(*lines, Text("Why the others were left out", style="title"), _refusals(found))


def _listed(found: SearchResult) -> str:
    """Say which of the layouts that fit the table has."""
    if found.ways == 1:
        return "All of them split the GPUs in the same way. The fastest:"
    ways = f"They split the GPUs in {found.ways:,} ways."
    if len(found.plans) == found.ways:
        return f"{ways} The fastest of each:"
    alone = ", and of data parallelism alone" if len(found.plans) > BEST else ""
    return f"{ways} The best layout of each of the {BEST} fastest{alone}:"


def _title(job: Job, machine: Accelerator, *gpus: int) -> str:
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
        least, limit_of = least_state_bytes(best.job, before) / GIB, safe_bytes(best.hardware.memory) / GIB
        why = "; no layout fits the rest beside them" if least <= limit_of else ""
        need = "need" if best.job.sizes.states else "may need"
        held = best.job.sizes.cautious.state_bytes.total
        yield Text(
            f"On {before:,}, weights, gradients and optimizer {need} {least:,.1f} GiB per GPU (--states: {held} bytes a"
            f" parameter); the limit is {limit_of:,.1f}{why}."
        )


def _best(plans: Sequence[Plan]) -> RenderableType:
    names = ["tp", "cp", "pp", "dp", "ep", "ZeRO", "mb", "pipeline", "recompute", "GiB", "step s", "MFU", "overhead"]
    has_experts = plans[0].job.model.experts is not None
    heads = [name for name in names if name != "ep" or has_experts]
    words = [heads.index(name) for name in ("pipeline", "recompute")]
    table = new_table(heads, left=words, style="title", gap=1)
    for plan in plans:
        layout = plan.job.layout
        pipeline = "-" if layout.pp == 1 else f"{layout.schedule}" + (f" x{layout.chunks}" if layout.chunks > 1 else "")
        experts = (layout.ep,) if has_experts else ()
        sizes = (layout.tp, layout.cp, layout.pp, layout.dp, *experts, layout.zero, layout.micro_batch)
        numbers = (amount(plan.memory.total / GIB), amount(plan.time.total), f"{plan.mfu:.1%}", plan.limit)
        table.add_row(*map(str, sizes), pipeline, layout.recompute, *numbers)
    # MFU says the same as the seconds of a step, since all rows train one model on as many GPUs
    return Narrowing(table, [heads.index(name) for name in ("overhead", "MFU")])


def _nothing(found: SearchResult) -> Text:
    if found.smallest is None:
        return Text("No layout divides the model and the batch. Take whole machines, such as 8 or 16 GPUs.", "bad")
    size, layout = found.smallest
    return Text(
        f"No layout fits. The smallest needs {size / GIB:,.1f} GiB a GPU: {layout}."
        " Take more GPUs, fewer tokens, or fewer bytes per parameter (--states).",
        "bad",
    )


def _refusals(found: SearchResult) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True, min_width=7)
    for reason, count in found.refused.most_common():
        table.add_row(f"{count:,}", f"{reason}. Example: {found.examples[reason]}")
    return table


def _arguments(plan: Plan) -> str:
    """The options of `ddpquiz plan` that describe a layout and a batch."""
    layout, sizes = plan.job.layout, plan.job.sizes
    axes = ",".join(f"{axis}={size}" for axis in ("tp", "cp", "pp", "ep") if (size := getattr(layout, axis)) > 1)
    options = [f"--gpus {layout.gpus}"]
    options += [f"--layout {axes}"] if axes else []
    options += [f"--zero {layout.zero} --micro-batch {layout.micro_batch}"]
    options += [f"--pipeline {layout.schedule}"] if layout.pp > 1 else []
    options += [f"--chunks {layout.chunks}"] if layout.chunks > 1 else []
    options += [f"--recompute {layout.recompute} --batch {sizes.batch} --seq {sizes.sequence}"]
    return " ".join(options)


def scale_page(plans: Sequence[Plan | tuple[int, str]], job: Job, machine: Accelerator, width: int) -> RenderableType:
    """Draw throughput and efficiency over the number of GPUs; the bar is the efficiency against the first plan."""
    table = new_table(("GPUs", "step s", "M tokens/s", "MFU", "efficiency"), left=(), style="title")
    table.add_column("")
    columns = max(1, min(_COLUMNS, width - _BESIDE))
    first = next((plan for plan in plans if isinstance(plan, Plan)), None)
    for plan in plans:
        if not isinstance(plan, Plan):
            table.add_row(f"{plan[0]:,}", "-", "-", "-", "-", Text(plan[1], style="quiet"))
            continue
        share = plan.tokens_per_second / first.tokens_per_second if first else 1.0
        drawn = "━" * max(1, min(columns, round(share * columns)))
        gpus, rate = plan.job.layout.gpus, plan.tokens_per_second * plan.job.layout.gpus / 1e6
        table.add_row(
            f"{gpus:,}", amount(plan.time.total), amount(rate), f"{plan.mfu:.1%}", f"{share:.0%}", Text(drawn, "accent")
        )
    counts = [each.job.layout.gpus if isinstance(each, Plan) else each[0] for each in plans]
    heads = [Text(_title(job, machine, *{counts[0], counts[-1]}), style="head")]
    if first:
        heads.append(Text(f"{first.job.layout}; the batch stays the same, and only dp grows"))
    note = "Efficiency: tokens/s/GPU against the first row. Collectives are rings, whose latency grows with dp."
    return Group(*heads, table, Text(note, style="quiet"))


def comparison(plan: Plan, other: Plan) -> RenderableType:
    """Draw two plans side by side."""
    table = new_table(("", "first", "second", "change"), style="title")
    for name in ("weights", "gradients", "optimizer", "activations", "logits", "buffers", "total"):
        _row(table, f"{name}, GiB", getattr(plan.memory, name) / GIB, getattr(other.memory, name) / GIB)
    for name in ("compute", "tp", "cp", "ep", "pp", "dp", "bubble", "optimizer", "total"):
        shown = "step" if name == "total" else "update" if name == "optimizer" else name
        _row(table, f"{shown}, s", getattr(plan.time, name), getattr(other.time, name))
    _row(table, "MFU, %", 100 * plan.mfu, 100 * other.mfu)
    heads = [Text(f"first: {plan.job.layout}", "head"), Text(f"second: {other.job.layout}", "head")]
    same = f"Both: {plan.fit}." if plan.fit is other.fit else f"The first: {plan.fit}; the second: {other.fit}."
    return Group(*heads, table, Text(same))


def _row(table: Table, name: str, first: float, second: float) -> None:
    if first or second:
        change = f"{(second - first) / first:+.0%}".replace("-0%", "0%").replace("+0%", "0%") if first else "new"
        table.add_row(name, amount(first) if first else "0", amount(second) if second else "0", change)


_SLOT_STYLES = {"F": "accent", "B": "good", "W": "warn", "X": "good", ".": "quiet"}
_MOST_ROWS = 64
_CUT = " ... "


def schedule_page(run: PipelineRun, width: int, micro_batches: int) -> RenderableType:
    """Draw what each rank does over time: F forward, B backward, W weight gradients, X both, a dot is idle.

    `micro_batches` is how many the step has; `run` may show fewer. Where a task would be narrower than a column, the
    middle of the run is left out.
    """
    names = len(f"rank {len(run.ranks) - 1}") + 1
    columns = max(20, width - names)
    title = f"{run.schedule}, {len(run.ranks)} ranks, {run.micro_batches:,} micro-batches: {amount(run.seconds)} s"
    title += f" (the first of {micro_batches:,})" if run.micro_batches < micro_batches else ""
    parts = _parts(run, columns)
    title += "; its middle is left out" if len(parts) > 1 else ""
    rows: list[RenderableType] = [Text(title, style="head")]
    for rank, slots in list(enumerate(run.ranks))[:_MOST_ROWS]:
        lanes = [_lane(slots, part) for part in parts]
        rows.append(Text(f"rank {rank}".ljust(names), "quiet").append_text(Text(_CUT, "quiet").join(lanes)))
    rows.append(Text("F forward   B backward   W weight gradients   X forward beside backward   . idle", style="quiet"))
    stored = ", ".join(f"{count:g}" for count in run.stored[:8]) + (", ..." if len(run.stored) > 8 else "")
    rows.append(Text(f"Idle {run.bubble:.1%} of the time. Micro-batches stored at once, by rank: {stored}"))
    rows.append(Text("Sends between stages, data-parallel traffic and the optimizer are not in it.", style="quiet"))
    return Group(*rows)


def _letter(slot: Slot) -> str:
    """The letter of a task."""
    kinds = {piece.kind for piece in slot.task}
    return "X" if {"F", "B"} <= kinds else "B" if "B" in kinds else slot.task[0].kind


def _parts(run: PipelineRun, columns: int) -> list[list[float]]:
    """Return the times that are drawn, those in the middles of columns: of the whole run, or of its start and end."""
    shortest = min((slot.end - slot.start for slots in run.ranks for slot in slots), default=run.seconds)
    if run.seconds <= columns * shortest:
        return [[(column + 0.5) * run.seconds / columns for column in range(columns)]]
    half = (columns - len(_CUT)) // 2
    start = [(column + 0.5) * shortest for column in range(half)]
    return [start, [run.seconds - time for time in reversed(start)]]


def _lane(slots: Sequence[Slot], times: Sequence[float]) -> Text:
    """Draw what a rank does at some times."""
    line, at = Text(), 0
    for middle in times:
        while at < len(slots) - 1 and slots[at].end <= middle:
            at += 1
        slot = slots[at]
        sign = _letter(slot) if slot.start <= middle < slot.end else "."
        line.append(sign, style=_SLOT_STYLES[sign])
    return line
