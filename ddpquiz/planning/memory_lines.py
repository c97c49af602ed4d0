"""The lines of memory: each with its formula, the numbers put in, and a source."""

from dataclasses import dataclass

from ddpquiz.planning.bubble import in_flight
from ddpquiz.planning.memory import STATE_BYTES, rank_tokens, stage_activations
from ddpquiz.planning.plan import Plan
from ddpquiz.planning.stages import rank_stages

GIB = 2.0**30


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


_STATES = {"weights": "weights", "gradients": "gradients", "optimizer": "optimizer states"}


def _states(plan: Plan, line: str, stage: int, per_parameter: int) -> PlanLine:
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
        f"States: {plan.job.sizes.states}. ZeRO shards {_STATES[line]} from stage {stage} on; with stage {layout.zero},"
        f" each rank holds {holds}.",
    )


def weights(plan: Plan) -> PlanLine:
    """Explain the bytes of weights."""
    return _states(plan, "weights", 3, STATE_BYTES[plan.job.sizes.states].weights)


def gradients(plan: Plan) -> PlanLine:
    """Explain the bytes of gradients."""
    return _states(plan, "gradients", 2, STATE_BYTES[plan.job.sizes.states].gradients)


def optimizer(plan: Plan) -> PlanLine:
    """Explain the bytes of optimizer state."""
    return _states(plan, "optimizer", 1, STATE_BYTES[plan.job.sizes.states].optimizer)


def activations(plan: Plan) -> PlanLine:
    """Explain the bytes of activations."""
    job, number = plan.job, plan.memory.stage
    held = rank_stages(job.model, job.layout, number)
    stored = sum(stage_activations(job.model, job.layout, each, job.sizes)[0] for each in held) / len(held)
    again = max(stage_activations(job.model, job.layout, each, job.sizes)[1] for each in held)
    count = in_flight(job.layout, job.micro_batches, number)
    working = f" + {again:.6g}" if again else ""
    return PlanLine(
        "activations",
        plan.memory.activations / GIB,
        "GiB",
        "micro-batches in flight x bytes that the stage stores of each" + (" + one layer again" if again else ""),
        f"({count:.6g} * {stored:.6g}{working}) / 2**30",
        "arXiv 2205.05198, table 2",
        "activation-checkpointing",
        f"{sum(each.layers for each in held) / len(held):g} layers, {rank_tokens(job.layout, job.sizes.sequence):,.0f}"
        f" tokens of a micro-batch on the rank, recompute {job.layout.recompute}.",
    )


def logits(plan: Plan) -> PlanLine:
    """Explain the bytes of logits."""
    job = plan.job
    tokens = rank_tokens(job.layout, job.sizes.sequence) if plan.memory.logits else 0
    return PlanLine(
        "logits",
        plan.memory.logits / GIB,
        "GiB",
        "tokens x (4 x vocabulary / tp + 4 x hidden)",
        f"{tokens:g} * (4 * {job.model.vocabulary} / {job.layout.tp} + 4 * {job.model.hidden}) / 2**30",
        "arXiv 2205.05198, section 4.3",
        "activation-checkpointing",
        "Only the last stage has logits. They are in fp32.",
    )


def buffers(plan: Plan) -> PlanLine:
    """Explain the bytes of communication buffers."""
    return PlanLine(
        "buffers",
        plan.memory.buffers / GIB,
        "GiB",
        "two gathered layers and a gradient (ZeRO-3) + two tensors between stages + two neighbours' keys and values",
        f"{plan.memory.buffers:.8g} / 2**30",
        "torch.distributed.fsdp.fully_shard",
        "fsdp-mechanics",
    )
