"""Seconds of a step: computing, the communication that computing does not hide, the bubble, and the optimizer.

A micro-batch takes its matrix products at the GPU's efficiency, and what else its memory moves.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ddpquiz.plan.activations import Split
from ddpquiz.plan.hardware import Hardware
from ddpquiz.plan.layer_work import LayerWork, layer_work
from ddpquiz.plan.layout import (
    Layout,
    PipelineSchedule,
    Recompute,
    idle_seconds,
    outer_stages,
    rank_stages,
    usual_stage,
)
from ddpquiz.plan.memory import Sizes, rank_tokens
from ddpquiz.plan.model import Transformer, head_flops
from ddpquiz.plan.traffic import (
    Job,
    Path,
    Traffic,
    cut_bytes,
    data_parallel,
    exchange_path,
    layer_traffic,
    path,
    transfer_seconds,
)

# Bytes that backward moves for each of forward. In a GPT layer 34 h / 22 h for norms, dropout and sums, 24 h / 16 h for
# the activation function, and 19 a s / 13 a s for scores: 1.46 to 1.55
BACKWARD_MOVES = 1.5
_LOGIT = 4  # bytes of a logit, of which the loss is computed in fp32
# Seconds by which a second of ZeRO-3's traffic slows the computing that hides it: both use the memory and the cores of
# a GPU. Fitted to published runs.
OVERLAP_COST = 0.4


@dataclass(frozen=True, slots=True)
class Accelerator:
    """What computes: the GPU, and the number format of matrix products.

    `causal` counts half of attention's FLOP in MFU and HFU. Time always counts all of them: attention's kernels skip
    what a mask hides, at about half the efficiency of matrix products. `measured` replaces the efficiency of the
    hardware file, for instance by one measured on this machine. `attention` is the share of it that attention's kernels
    reach.
    """

    hardware: Hardware
    precision: str = "bf16"
    causal: bool = False
    measured: float | None = None
    attention: float = 1.0

    @property
    def efficiency(self) -> float:
        return self.hardware.efficiency if self.measured is None else self.measured

    @property
    def peak(self) -> float:
        return self.hardware.flops[self.precision]

    @property
    def attention_peak(self) -> float:
        """FLOP a second of attention, which stays in 16 bits where matrices are in fp8."""
        return min(self.peak, self.hardware.flops.get("bf16", self.peak))

    @property
    def attention_speed(self) -> float:
        """FLOP a second that attention's kernels reach, if all of attention's FLOP are counted."""
        return self.attention_peak * self.efficiency * self.attention


@dataclass(frozen=True, slots=True)
class Compute:
    """Seconds of a stage for one micro-batch. `backward` contains recomputation and `weights`, the weight gradients.

    `idle` is the part of both in which the GPU waits for kernels to be launched.
    """

    forward: float
    backward: float
    weights: float
    attention: float  # the part of forward in which context parallelism can hide its sends
    idle: float = 0.0


def _layer_seconds(layout: Layout, work: LayerWork, machine: Accelerator) -> Compute:
    """The seconds of one layer.

    Forward is FLOP / (peak x efficiency) + bytes / (bandwidth x reached), or the time to launch its kernels if that is
    longer. Backward has twice the FLOP, 1.5 times the bytes and twice the kernels, and what recomputation repeats.
    """
    hardware = machine.hardware
    matrices = work.matrices / (machine.peak * machine.efficiency)
    attention = work.attention / machine.attention_speed
    scores = work.scores / hardware.memory_speed
    moved = work.moved / hardware.memory_speed + scores
    forward, backward = matrices + attention + moved, 2 * (matrices + attention) + BACKWARD_MOVES * moved
    idle, idle_back = max(0.0, hardware.launch - forward), max(0.0, 2 * hardware.launch - backward)
    forward, backward = forward + idle, backward + idle_back
    if layout.recompute is Recompute.FULL:
        backward, idle = backward + forward, 2 * idle
    elif layout.recompute is Recompute.SELECTIVE_OP:
        backward += work.again / (machine.peak * machine.efficiency) + moved
    elif layout.recompute is Recompute.SELECTIVE and scores:
        backward += attention + scores
    return Compute(forward, backward, matrices, attention, idle + idle_back)


def stage_layers(model: Transformer, layout: Layout, sizes: Sizes, number: int) -> list[tuple[float, LayerWork]]:
    """How many layers of each kind a rank of a stage has, and the work of one; of two stages, their mean."""
    held, tokens = rank_stages(model, layout, number), rank_tokens(layout, sizes.sequence)
    split, attended = Split(layout.tp, layout.sequence_parallel), (sizes.sequence, sizes.flash)
    counts = {
        moe: sum(each.moe_layers if moe else each.dense_layers for each in held) / len(held) for moe in (False, True)
    }
    return [
        (count, layer_work(model, tokens, split, moe=moe, attended=attended)) for moe, count in counts.items() if count
    ]


def head_seconds(
    model: Transformer, layout: Layout, sizes: Sizes, machine: Accelerator, number: int
) -> tuple[float, float]:
    """The seconds of the output head in forward: of its matrix, and of its logits, which are read and written.

    Backward takes twice the one and once the other.
    """
    held = rank_stages(model, layout, number)
    tokens = sum(each.head for each in held) / len(held) * rank_tokens(layout, sizes.sequence)
    matrix = tokens * head_flops(model) / layout.tp / (machine.attention_peak * machine.efficiency)
    return matrix, 2 * _LOGIT * tokens * model.vocabulary / layout.tp / machine.hardware.memory_speed


def _stage_seconds(model: Transformer, layout: Layout, sizes: Sizes, machine: Accelerator, number: int) -> Compute:
    """The seconds of a stage for one micro-batch; of a rank with two stages, their mean."""
    head, logits = head_seconds(model, layout, sizes, machine, number)
    forward, backward, weights, attention, idle = head + logits, 2 * head + logits, head, 0.0, 0.0
    for count, work in stage_layers(model, layout, sizes, number):
        one = _layer_seconds(layout, work, machine)
        forward, backward = forward + count * one.forward, backward + count * one.backward
        weights, attention = weights + count * one.weights, attention + count * one.attention
        idle += count * one.idle
    return Compute(forward, backward, weights, attention, idle)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Seconds of a step. Those of an axis are its exposed communication: what computing does not hide."""

    compute: float
    tp: float
    cp: float
    ep: float
    pp: float
    dp: float
    bubble: float
    optimizer: float

    @property
    def total(self) -> float:
        exposed = self.tp + self.cp + self.ep + self.pp + self.dp
        return self.compute + exposed + self.bubble + self.optimizer


def group_path(machine: Accelerator, layout: Layout, part: Traffic) -> Path:
    """The path of the group that a part of the traffic runs in. Ranks are numbered tp, cp, dp, pp."""
    stride = 1
    match part.axis:
        case "cp" | "ep":
            stride = layout.tp
        case "dp":
            replicates = part.op == "all_reduce" and layout.zero > 0
            stride = layout.tp * (layout.sharded_over if replicates else max(1, layout.replicas // part.ranks))
        case "pp":
            stride = layout.tp * layout.replicas
    find = exchange_path if part.op == "all_to_all" else path
    return find(machine.hardware, part.ranks, stride)


def seconds(machine: Accelerator, layout: Layout, parts: Sequence[Traffic]) -> float:
    """The seconds of some traffic, if nothing hides it."""
    return sum(
        transfer_seconds(part.op, group_path(machine, layout, part), part.calls, part.input_bytes) for part in parts
    )


@dataclass(frozen=True, slots=True)
class StageWork:
    """What a stage does for a micro-batch: computing, and the traffic of its layers in seconds by axis."""

    compute: Compute
    traffic: dict[str, float]

    @property
    def total(self) -> float:
        return self.compute.forward + self.compute.backward + sum(self.traffic.values())


Works = dict[int, StageWork]  # by the number of the stage


def stage_work(job: Job, machine: Accelerator, number: int) -> StageWork:
    """The work of a stage; sends of cp hide behind attention if they may, traffic of tp behind matrices.

    DualPipe hides the traffic to experts of a forward behind the computing of the backward beside it, and the other way
    round (arXiv 2412.19437, section 3.2.1).
    """
    compute = _stage_seconds(job.model, job.layout, job.sizes, machine, number)
    parts = list(layer_traffic(job, number))
    found = {
        axis: seconds(machine, job.layout, [part for part in parts if part.axis == axis]) for axis in ("tp", "cp", "ep")
    }
    if job.layout.overlap:
        found["cp"] = max(0.0, found["cp"] - 3 * compute.attention)
        found["ep"] -= _beside(job) * min(found["ep"], compute.forward + compute.backward)
    if job.layout.tp_overlap:
        found["tp"] = max(0.0, found["tp"] - 3 * compute.weights)
    found["tp"] = max(0.0, found["tp"] - compute.idle)
    return StageWork(compute, found)


def _beside(job: Job) -> float:
    """The share of a step's micro-batches whose forward runs beside the backward of another one, on an outer rank."""
    p, m = job.layout.pp, job.micro_batches
    return (m - 3 * p / 2 + 1) / m if job.layout.schedule is PipelineSchedule.DUALPIPE and p > 1 else 0.0


def _pipeline_exposed(job: Job, machine: Accelerator) -> float:
    """The seconds of sends between stages that nothing hides: those that fill and drain it, or all of them."""
    layout = job.layout
    if layout.pp == 1:
        return 0.0
    way = path(machine.hardware, 2, layout.tp * layout.replicas)
    times = 2 * (layout.pp - 1) if layout.overlap else 2 * (layout.pp - 1 + job.micro_batches * layout.chunks)
    return transfer_seconds("send", way, times, times * cut_bytes(job))


def _overlap_window(layout: Layout) -> float:
    """Return beside how many micro-batches' backward the gradients of a step can travel.

    Gradients are complete in the last micro-batch. With v chunks, those of the last chunk are complete when the others
    still have p micro-batches each to do.
    """
    return (layout.pp * (layout.chunks - 1) + 1) / layout.chunks


def _replicas_exposed(job: Job, machine: Accelerator, number: int, compute: Compute) -> float:
    """The seconds of data-parallel traffic that nothing hides.

    Gradients hide behind the backward of the last micro-batch, gathered weights behind the first forward; with ZeRO-3
    both hide behind the computing of each micro-batch, which they slow, but for the first unit's gather and the last
    unit's reduction.
    """
    layout, m = job.layout, job.micro_batches
    parts = data_parallel(job, number)
    gathers = seconds(machine, layout, [part for part in parts if part.op == "all_gather"])
    reduces = seconds(machine, layout, [part for part in parts if part.op != "all_gather"])
    if not layout.overlap:
        return gathers + reduces
    if layout.zero < 3 or layout.keeps_gathered:
        times = m if layout.zero == 2 else 1
        last = reduces / max(sum(part.calls for part in parts if part.op != "all_gather"), 1)
        window = _overlap_window(layout)
        hidden = max(times * last, reduces - times * window * compute.backward)
        return max(0.0, gathers - window * compute.forward) + (hidden if parts else 0.0)
    gather, reduce = gathers / m, reduces / m
    units = max(1, sum(each.layers for each in rank_stages(job.model, layout, number)))
    exposed = max(0.0, gather / 2 - compute.forward) + max(0.0, gather / 2 + reduce - compute.backward)
    exposed += (gather / 2 + reduce) / units
    return m * (exposed + OVERLAP_COST * max(0.0, gather + reduce - exposed))


def optimizer_bytes(job: Job) -> float:
    """The bytes that Adam moves on the rank with most: state is read and written, gradients read, weights written."""
    layout, each = job.layout, job.sizes.state_bytes
    shards = layout.sharded_over if layout.zero else 1
    own = (
        sum(stage.parameters / shards + stage.routed / max(shards // layout.ep, 1) for stage in held)
        for held in (rank_stages(job.model, layout, number) for number in outer_stages(job.model, layout.pp))
    )
    return max(own) * (2 * each.optimizer + each.gradients + each.weights)


def usual_seconds(job: Job, machine: Accelerator, works: Works | None = None) -> tuple[float, float, float]:
    """The seconds of forward, backward and weight gradients of a stage that holds what most of them hold.

    A third of the traffic of its layers belongs to forward.
    """
    number = usual_stage(job.model, job.layout.pp)
    work = works[number] if works else stage_work(job, machine, number)
    third = sum(work.traffic.values()) / 3
    return work.compute.forward + third, work.compute.backward + 2 * third, work.compute.weights


def slowest_stage(works: Works) -> int:
    """The stage with most to do."""
    return max(works, key=lambda number: works[number].total)


def stage_works(job: Job, machine: Accelerator) -> Works:
    """The work of the stages that can be the slowest; it does not depend on the stage of ZeRO."""
    return {number: stage_work(job, machine, number) for number in outer_stages(job.model, job.layout.pp)}


def step_time(job: Job, machine: Accelerator, works: Works | None = None) -> StepTime:
    """The seconds of a step: the slowest stage does all micro-batches, and waits while the pipeline fills."""
    layout, m = job.layout, job.micro_batches
    works = works or stage_works(job, machine)
    slowest = slowest_stage(works)
    work = works[slowest]
    bubble = idle_seconds(layout, *usual_seconds(job, machine, works)) if layout.pp > 1 else 0.0
    return StepTime(
        compute=m * (work.compute.forward + work.compute.backward),
        **{axis: m * cost for axis, cost in work.traffic.items()},
        pp=_pipeline_exposed(job, machine),
        dp=_replicas_exposed(job, machine, slowest, work.compute),
        bubble=bubble,
        optimizer=optimizer_bytes(job) / machine.hardware.memory_speed,
    )
