"""The page of a plan: memory and time as bars, the traffic of each axis, and what comes out."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ddpquiz.planning.explanation import lines
from ddpquiz.planning.memory import STATE_BYTES
from ddpquiz.planning.memory_lines import GIB, PlanLine
from ddpquiz.planning.plan import Plan
from ddpquiz.planning.traffic import Traffic

MEMORY = (
    ("W", "weights"),
    ("G", "gradients"),
    ("O", "optimizer"),
    ("A", "activations"),
    ("L", "logits"),
    ("B", "buffers"),
)
TIME = (
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


DOES_NOT_FIT = "--search lists the layouts that fit; without --gpus, on the fewest GPUs that work."


def plan_page(plan: Plan, tokens: float, width: int) -> RenderableType:
    """Draw a plan on one screen of 80 x 24."""
    return Group(
        *_head(plan),
        *_memory(plan, width),
        *_time(plan, width),
        _traffic(plan),
        *_results(plan, tokens),
    )


def bar(parts: Sequence[tuple[str, float]], whole: float, width: int) -> Text:
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
        f" {job.micro_batches:,} micro-batches a rank"
    )


def _memory(plan: Plan, width: int) -> Iterator[Text]:
    memory, size = plan.memory, plan.hardware.memory
    title = Text("Memory", style="title")
    where = f"stage {memory.stage}, the fullest" if plan.job.layout.pp > 1 else "each rank"
    title.append(f"  {memory.total / GIB:,.1f} GiB on {where}; ", "")
    title.append(f"usable {plan.capacity / GIB:,.1f} of {size / GIB:g} GiB: ", "")
    yield title.append("fits" if plan.fits else "does not fit", style="good" if plan.fits else "bad")
    yield bar([(letter, getattr(memory, name)) for letter, name in MEMORY], max(size, memory.total), width)
    amounts = [(letter, name, getattr(memory, name)) for letter, name in MEMORY]
    yield _legend([(*each, amount(each[2] / GIB)) for each in amounts], width)


def _time(plan: Plan, width: int) -> Iterator[Text]:
    time = plan.time
    yield Text("Step", style="title").append(
        f"    {amount(time.total)} s (of communication, only what computing does not hide)", ""
    )
    yield bar([(letter, getattr(time, name)) for letter, name in TIME], time.total, width)
    parts = [(letter, _WORDS.get(name, name), getattr(time, name)) for letter, name in TIME]
    yield _legend([(*each, amount(each[2])) for each in parts], width)


def _traffic(plan: Plan) -> RenderableType:
    if not plan.traffic:
        return Text("Traffic  one GPU sends nothing")
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="title")
    table.add_column("Traffic")
    for name in ("ranks", "calls", "sent/rank", "seconds"):
        table.add_column(name, justify="right")
    table.add_column("how")
    for part in plan.traffic:
        where = "in a machine" if plan.in_machine(part) else "across machines"
        how = where if part.op == "send" else f"{algorithm(part)}, {where}"
        axis = "dp,cp" if part.axis == "dp" and plan.job.layout.cp > 1 else part.axis  # ranks of both sum gradients
        sent, wire = f"{amount(part.sent / GIB)} GiB", amount(plan.wire_seconds(part))
        table.add_row(f"{axis} {part.op}", f"{part.ranks:,}", f"{part.calls:,}", sent, wire, how)
    return table


def algorithm(part: Traffic) -> str:
    """Name how the bytes of an operator are counted."""
    return {"send": "point to point", "all_to_all": "pairwise"}.get(part.op, "ring")


def _results(plan: Plan, tokens: float) -> Iterator[Text]:
    each = STATE_BYTES[plan.job.sizes.states]
    result = Text("" if plan.fits else "If it did fit: ")
    result.append(f"{plan.tokens_per_second:,.0f} tokens/s/GPU   ", "head")
    result.append(f"MFU {plan.mfu:.1%}   HFU {plan.hfu:.1%}   {amount(plan.days(tokens))} days for ")
    yield result.append(f"{tokens / 1e12:g} T tokens")
    yield Text(f"Of the step: {shares(plan)}") if plan.fits else Text(DOES_NOT_FIT, style="bad")
    attention = "half" if plan.machine.causal else "all"
    held = f"W {each.weights}, G {each.gradients}, O {each.optimizer} bytes a parameter"
    counted = f"{held}; {plan.machine.precision}"
    yield Text(f"Counted: {counted}, {attention} of attention's FLOP, GiB = 2^30", style="quiet")
    yield Text(f"--explain LINE: {', '.join(lines())}", style="quiet")


def shares(plan: Plan) -> str:
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
    rows = [
        Text(f"{found.line}: {amount(found.value)} {found.unit}", style="head"),
        Text(f"= {found.formula}"),
        Text(f"= {found.filled}", style="code"),
    ]
    rows += [Text(found.note)] if found.note else []
    rows += [Text(f"Source: {found.source}", style="quiet"), Text(f"Concept: ddpquiz learn {found.concept}")]
    return Group(*rows)
