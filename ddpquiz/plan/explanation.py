"""Each line of a plan with its formula, the numbers put in, a source, and the concept that teaches it."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ddpquiz.plan.activations import Loss, loss_bytes
from ddpquiz.plan.layer_work import LayerWork
from ddpquiz.plan.layout import BUBBLES, Recompute, in_flight, rank_stages
from ddpquiz.plan.memory import buffer_parts, rank_tokens, stage_activations
from ddpquiz.plan.plan import DAY, Plan
from ddpquiz.plan.step_time import (
    BACKWARD_MOVES,
    group_path,
    head_seconds,
    optimizer_bytes,
    stage_layers,
    usual_seconds,
)
from ddpquiz.plan.traffic import Traffic, rounds

GIB = 2.0**30
_AXES = ("tp", "cp", "ep", "pp", "dp")


@dataclass(frozen=True, slots=True)
class PlanLine:
    """How one line of a plan comes about. `filled` is arithmetic that gives `value` in `unit`."""

    line: str
    value: float
    unit: str
    formula: str
    filled: str
    source: str
    concept: str
    note: str = ""


def explain(plan: Plan, line: str, tokens: float) -> PlanLine:
    """Explain a line of a plan, days being those for `tokens`; KeyError if there is no such line."""
    if line in _AXES:
        return _axis(plan, line)
    if line == "days":
        return _days(plan, tokens)
    return _LINES[line](plan)


def lines() -> list[str]:
    """The names of all lines that can be explained."""
    return [*_LINES, "days", *_AXES]


# What ZeRO shards: from which stage on, and what it is called
_STATES = {"weights": (3, "weights"), "gradients": (2, "gradients"), "optimizer": (1, "optimizer states")}


def _states(plan: Plan, line: str) -> PlanLine:
    stage, name = _STATES[line]
    per_parameter = getattr(plan.job.sizes.state_bytes, line)
    held = rank_stages(plan.job.model, plan.job.layout, plan.memory.stage)
    layout, value = plan.job.layout, getattr(plan.memory, line) / GIB
    holds = "a shard" if layout.zero >= stage else "all of them"
    shards = layout.sharded_over if layout.zero >= stage else 1
    dense = sum(each.parameters for each in held)
    routed = sum(each.routed for each in held)
    filled = f"{dense} * {per_parameter} / {shards}"
    if routed:
        filled = f"({filled} + {routed} * {per_parameter} / {max(shards // layout.ep, 1)})"
    return PlanLine(
        line,
        value,
        "GiB",
        f"parameters of the rank x {per_parameter} bytes / ranks that shard them",
        f"{filled} / 2**30",
        "arXiv 1910.02054, figure 1",
        "zero-stages",
        f"States: {plan.job.sizes.state_kind}. ZeRO shards {name} from stage {stage} on; with stage {layout.zero},"
        f" each rank holds {holds}.",
    )


def _activations(plan: Plan) -> PlanLine:
    """Explain the bytes of activations."""
    job, number = plan.job, plan.memory.stage
    held = rank_stages(job.model, job.layout, number)
    stored = sum(stage_activations(job.model, job.layout, each, job.sizes)[0] for each in held) / len(held)
    again = max(stage_activations(job.model, job.layout, each, job.sizes)[1] for each in held)
    count = in_flight(job.layout, job.micro_batches, number)
    again = max(0.0, again - plan.memory.logits)  # what is larger counts
    working = f" + {again:.6g}" if again else ""
    return PlanLine(
        "activations",
        plan.memory.activations / GIB,
        "GiB",
        "micro-batches in flight x bytes that the stage stores of each"
        + (" + what backward computes again of a layer, as far as it is larger than the logits" if again else ""),
        f"({count:.6g} * {stored:.6g}{working}) / 2**30",
        "arXiv 2205.05198, table 2",
        "activation-checkpointing",
        f"{sum(each.layers for each in held) / len(held):g} layers, {rank_tokens(job.layout, job.sizes.sequence):,.0f}"
        f" tokens of a micro-batch on the rank, recompute {job.layout.recompute}.",
    )


def _logits(plan: Plan) -> PlanLine:
    """Explain the bytes of logits."""
    job = plan.job
    tokens = rank_tokens(job.layout, job.sizes.sequence) if plan.memory.logits else 0
    each = loss_bytes(job.sizes.loss_kind, job.layout.tp)
    split = 1 if job.sizes.loss_kind is Loss.GATHERED else job.layout.tp
    return PlanLine(
        "logits",
        plan.memory.logits / GIB,
        "GiB",
        "tokens x (bytes of a logit x vocabulary / the ranks that split it + 4 x hidden)",
        f"{tokens:g} * ({each:g} * {job.model.vocabulary} / {split} + 4 * {job.model.hidden}) / 2**30",
        "arXiv 2205.05198, section 4.3",
        "activation-checkpointing",
        f"Only the last stage has logits. The loss is {job.sizes.loss_kind}: at its peak, {each:g} bytes are held of"
        " each logit, those of its copies and gradients.",
    )


def _buffers(plan: Plan) -> PlanLine:
    """Explain the bytes of communication buffers."""
    job = plan.job
    held = rank_stages(job.model, job.layout, plan.memory.stage)
    parts = buffer_parts(job.model, job.layout, job.sizes, held)
    filled = " + ".join(f"{numbers:.12g} * {each}" for numbers, each in parts)
    return PlanLine(
        "buffers",
        plan.memory.buffers / GIB,
        "GiB",
        "what ZeRO-3 gathers: two layers, embedding and head, and their gradients; all that the rank computes if it is"
        " not sharded again + DeepSpeed's buckets + two tensors between stages + two neighbors' keys and values",
        f"{f'({filled})' if parts else 0} / 2**30",
        "torch.distributed.fsdp.fully_shard; of DeepSpeed: overlap_comm in the documentation of Transformers",
        "fsdp-mechanics",
        "Each part is numbers x the bytes that are held for one of them." if parts else "",
    )


_FORMULA = (
    "micro-batches x (layers x (forward + backward) + output head) of the slowest stage; forward: the longer of FLOP /"
    " (peak x efficiency) + bytes / (memory bandwidth x reached) and the launch of its kernels; backward: 2 x FLOP,"
    " 1.5 x bytes, 2 x launch, and what recomputation repeats"
)


def _compute(plan: Plan) -> PlanLine:
    """Explain the seconds of computing."""
    job, machine, hardware = plan.job, plan.machine, plan.hardware
    where = (job.model, job.layout, job.sizes, machine, plan.slowest)
    head, logits = head_seconds(*where)
    parts = [
        f"{count:g} * ({_layer(plan, work)})"
        for count, work in stage_layers(job.model, job.layout, job.sizes, plan.slowest)
    ]
    if head:
        parts.append(f"3 * {head:.6g} + 2 * {logits:.6g}")
    note = (
        f"Peak {machine.peak / 1e12:g} TFLOP/s in {machine.precision}, efficiency {machine.efficiency:g}; memory"
        f" {hardware.memory_bandwidth / 1e9:g} GB/s, of which kernels reach {hardware.memory_reached:.0%}; launching a"
        f" layer's forward takes {hardware.launch * 1e3:g} ms. Bytes are those of norms, dropout, sums, activation"
        f" functions and attention; matrix products hide theirs."
    )
    filled = f"{job.micro_batches} * ({' + '.join(parts)})"
    source = "arXiv 2205.05198, appendix A, for FLOP; constants fitted to published runs"
    return PlanLine("compute", plan.time.compute, "s", _FORMULA, filled, source, "scaling-efficiency", note)


def _layer(plan: Plan, work: LayerWork) -> str:
    """The seconds of a layer's forward and backward for a micro-batch, as arithmetic."""
    machine, launch = plan.machine, plan.hardware.launch
    speed = plan.hardware.memory_speed
    matrices = f"{work.matrices:.6g} / {machine.peak * machine.efficiency:.6g}"
    attention = f"{work.attention:.6g} / {machine.attention_speed:.6g}"
    moved = f"{work.moved + work.scores:.6g} / {speed:.6g}"
    forward = f"max({matrices} + {attention} + {moved}, {launch:g})"
    backward = f"max(2 * ({matrices} + {attention}) + {BACKWARD_MOVES:g} * {moved}, 2 * {launch:g})"
    match plan.job.layout.recompute:
        case Recompute.FULL:
            return f"2 * {forward} + {backward}"
        case Recompute.SELECTIVE_OP:
            return f"{forward} + {backward} + {work.again:.6g} / {machine.peak * machine.efficiency:.6g} + {moved}"
        case Recompute.SELECTIVE if work.scores:
            return f"{forward} + {backward} + {attention} + {work.scores:.6g} / {speed:.6g}"
    return f"{forward} + {backward}"


def _bubble(plan: Plan) -> PlanLine:
    layout = plan.job.layout
    forward, backward, weights = usual_seconds(plan.job, plan.machine) if layout.pp > 1 else (0.0, 0.0, 0.0)
    bubble = BUBBLES[layout.schedule]
    numbers = {"p": layout.pp, "v": layout.chunks, "F": forward, "B": backward, "W": weights}
    product = re.sub(r"(?<=[)\d])(?=[(A-Z])", " * ", bubble.formula)
    filled = re.sub(r"[A-Za-z]", lambda letter: f"{numbers[letter[0]]:.6g}", product)
    note = "F, B and W are a stage's seconds for a micro-batch, communication of its layers included."
    return PlanLine("bubble", plan.time.bubble, "s", bubble.formula, filled, bubble.source, "pipeline-bubble", note)


def _update(plan: Plan) -> PlanLine:
    moved = optimizer_bytes(plan.job)
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
        f"{what} per token x tokens/s/GPU / peak",
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
    **{line: partial(_states, line=line) for line in _STATES},
    "activations": _activations,
    "logits": _logits,
    "buffers": _buffers,
    "compute": _compute,
    "bubble": _bubble,
    "update": _update,
    "tokens": _tokens,
    "mfu": _mfu,
    "hfu": _hfu,
}
