"""Each line of a plan with its formula, the numbers put in, a source, and the concept that teaches it."""

from collections.abc import Callable

from ddpquiz.planning import compute_line, memory_lines
from ddpquiz.planning.layout import PipelineSchedule, Recompute
from ddpquiz.planning.memory_lines import PlanLine
from ddpquiz.planning.network import rounds
from ddpquiz.planning.plan import DAY, Plan
from ddpquiz.planning.step_time import group_path, optimizer_bytes, usual_stage
from ddpquiz.planning.traffic import Traffic

AXES = ("tp", "cp", "ep", "pp", "dp")


def explain(plan: Plan, line: str, tokens: float) -> PlanLine:
    """Explain a line of a plan, days being those for `tokens`; KeyError if there is no such line."""
    if line in AXES:
        return _axis(plan, line)
    if line == "days":
        return _days(plan, tokens)
    return _LINES[line](plan)


def lines() -> list[str]:
    """Return the names of all lines that can be explained."""
    return [*_LINES, "days", *AXES]


def _bubble(plan: Plan) -> PlanLine:
    layout = plan.job.layout
    forward, backward, weights = usual_stage(plan.job, plan.machine) if layout.pp > 1 else (0.0, 0.0, 0.0)
    p, v = layout.pp, layout.chunks
    formula, filled = {
        PipelineSchedule.INTERLEAVED: ("(p - 1)(F + B) / v", f"({p} - 1) * ({forward:.6g} + {backward:.6g}) / {v}"),
        PipelineSchedule.ZERO_BUBBLE: (
            "(p - 1)(F + B - 2W)",
            f"({p} - 1) * ({forward:.6g} + {backward:.6g} - 2 * {weights:.6g})",
        ),
        PipelineSchedule.DUALPIPE: (
            "(p / 2 - 1)(F + 2B - 3W)",
            f"({p} / 2 - 1) * ({forward:.6g} + 2 * {backward:.6g} - 3 * {weights:.6g})",
        ),
    }.get(layout.schedule, ("(p - 1)(F + B)", f"({p} - 1) * ({forward:.6g} + {backward:.6g})"))
    source = {
        PipelineSchedule.ZERO_BUBBLE: "arXiv 2401.10241, section 2.3",
        PipelineSchedule.DUALPIPE: "arXiv 2412.19437, table 2",
    }.get(layout.schedule, "arXiv 2104.04473, section 2.2")
    note = "F, B and W are a stage's seconds for a micro-batch, communication of its layers included."
    return PlanLine("bubble", plan.time.bubble, "s", formula, filled, source, "pipeline-bubble", note)


def _update(plan: Plan) -> PlanLine:
    moved = optimizer_bytes(plan.job, 0)
    return PlanLine(
        "update",
        plan.time.optimizer,
        "s",
        "bytes that Adam reads and writes / (memory bandwidth x reached)",
        f"{moved:.6g} / ({plan.hardware.memory_bandwidth:.6g} * {plan.hardware.memory_reached:g})",
        "arXiv 1910.02054, section 3.1",
        "zero-stages",
        "State is read and written, gradients are read, weights are written.",
    )


def _tokens(plan: Plan) -> PlanLine:
    job = plan.job
    return PlanLine(
        "tokens",
        plan.tokens_per_second,
        "tokens/s/GPU",
        "batch x sequence / step / GPUs",
        f"{job.sizes.batch} * {job.sizes.sequence} / {plan.time.total:.6g} / {job.layout.gpus}",
        "arXiv 2204.02311, appendix B",
        "scaling-efficiency",
    )


def _utilization(plan: Plan, line: str, flops: float, what: str) -> PlanLine:
    note = "Model FLOP: matrices, output head and " + (
        "the half of attention that a causal mask leaves." if plan.machine.causal else "all of attention."
    )
    return PlanLine(
        line,
        100 * getattr(plan, line),
        "%",
        f"{what} of a token x tokens/s/GPU / peak",
        f"100 * {flops:.6g} * {plan.tokens_per_second:.6g} / {plan.machine.peak:.6g}",
        "arXiv 2205.05198, appendix A",
        "scaling-efficiency",
        note,
    )


def _mfu(plan: Plan) -> PlanLine:
    return _utilization(plan, "mfu", plan.model_flops, "model FLOP")


def _hfu(plan: Plan) -> PlanLine:
    again = "" if plan.job.layout.recompute is Recompute.NONE else " with those of recomputation"
    return _utilization(plan, "hfu", plan.hardware_flops, f"FLOP{again}")


def _days(plan: Plan, tokens: float) -> PlanLine:
    rate = plan.tokens_per_second * plan.job.layout.gpus
    return PlanLine(
        "days",
        plan.days(tokens),
        f"days for {tokens / 1e12:g} T tokens",
        "tokens / (tokens/s/GPU x GPUs) / 86,400",
        f"{tokens:g} / {rate:.6g} / {DAY:g}",
        "arXiv 2104.04473, section 5.1",
        "scaling-efficiency",
        "No failures, restarts or checkpoints.",
    )


_CONCEPTS = {
    "tp": ("tensor-parallel", "arXiv 1909.08053, section 3, and 2205.05198, section 4.2.2"),
    "cp": ("context-parallel", "arXiv 2310.01889, section 3"),
    "ep": ("expert-parallel", "arXiv 2006.16668, section 2"),
    "pp": ("pipeline-schedules", "arXiv 2104.04473, section 2.2"),
    "dp": ("comm-cost-model", "arXiv 1910.02054, section 7"),
}


def _axis(plan: Plan, axis: str) -> PlanLine:
    """Explain the traffic of an axis: the seconds that it would take if nothing hid it."""
    parts = [part for part in plan.traffic if part.axis == axis]
    concept, source = _CONCEPTS[axis]
    filled = " + ".join(_transfer(plan, part) for part in parts) or "0"
    value = eval(filled, {"__builtins__": {}})  # noqa: S307  # arithmetic that was written here from numbers
    exposed = getattr(plan.time, axis)
    return PlanLine(
        axis,
        value,
        "s on the wire",
        "for each operator: calls x rounds x (hops x alpha) + bytes sent / bandwidth",
        filled,
        source,
        concept,
        f"alpha: the latency of one hop. Computing hides all but {exposed:.4g} s."
        if parts
        else f"{axis} is 1: nothing is sent.",
    )


def _transfer(plan: Plan, part: Traffic) -> str:
    way = group_path(plan.machine, plan.job.layout, part)
    latency = f"{part.calls} * {rounds(part.op, way.ranks):.6g} * {way.round_latency:.6g}"
    return f"{latency} + {part.sent:.6g} / {way.bytes_per_second:.6g}"


_LINES: dict[str, Callable[[Plan], PlanLine]] = {
    "weights": memory_lines.weights,
    "gradients": memory_lines.gradients,
    "optimizer": memory_lines.optimizer,
    "activations": memory_lines.activations,
    "logits": memory_lines.logits,
    "buffers": memory_lines.buffers,
    "compute": compute_line.compute,
    "bubble": _bubble,
    "update": _update,
    "tokens": _tokens,
    "mfu": _mfu,
    "hfu": _hfu,
}
