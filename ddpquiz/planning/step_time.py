"""Seconds of a step: computing, the communication that computing does not hide, the bubble, and the optimizer."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from ddpquiz.planning.bubble import idle_seconds
from ddpquiz.planning.layout import Layout
from ddpquiz.planning.memory import STATE_BYTES
from ddpquiz.planning.network import Path, path, transfer_seconds
from ddpquiz.planning.stage_time import Compute, Machine, stage_seconds
from ddpquiz.planning.stages import outer_stages, rank_stages
from ddpquiz.planning.step_traffic import Job, cut_bytes, data_parallel, layer_traffic
from ddpquiz.planning.traffic import Traffic


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
        return sum(getattr(self, each.name) for each in fields(self))


def group_path(machine: Machine, layout: Layout, part: Traffic) -> Path:
    """Return the path of the group that a part of the traffic runs in. Ranks are numbered tp, cp, dp, pp."""
    stride = 1
    match part.axis:
        case "cp" | "ep":
            stride = layout.tp
        case "dp":
            replicates = part.op == "all_reduce" and layout.zero > 0
            stride = layout.tp * (layout.sharded_over if replicates else max(1, layout.replicas // part.ranks))
        case "pp":
            stride = layout.tp * layout.replicas
    return path(machine.hardware, part.ranks, stride)


def seconds(machine: Machine, layout: Layout, parts: Sequence[Traffic]) -> float:
    """Return the seconds of some traffic, if nothing hides it."""
    return sum(
        transfer_seconds(part.op, group_path(machine, layout, part), part.calls, part.brought) for part in parts
    )


@dataclass(frozen=True, slots=True)
class StageWork:
    """What a stage does for a micro-batch: computing, and the traffic of its layers in seconds by axis."""

    compute: Compute
    traffic: dict[str, float]

    @property
    def total(self) -> float:
        return self.compute.forward + self.compute.backward + sum(self.traffic.values())


def stage_work(job: Job, machine: Machine, number: int) -> StageWork:
    """Return the work of a stage; the sends of ring attention hide behind its computing if they may overlap."""
    compute = stage_seconds(job.model, job.layout, job.sizes, machine, number)
    parts = list(layer_traffic(job, number))
    found = {
        axis: seconds(machine, job.layout, [part for part in parts if part.axis == axis]) for axis in ("tp", "cp", "ep")
    }
    if job.layout.overlap:
        found["cp"] = max(0.0, found["cp"] - 3 * compute.attention)
    return StageWork(compute, found)


def pipeline_exposed(job: Job, machine: Machine) -> float:
    """Return the seconds of sends between stages that nothing hides: those that fill and drain it, or all of them."""
    layout = job.layout
    if layout.pp == 1:
        return 0.0
    way = path(machine.hardware, 2, layout.tp * layout.replicas)
    times = 2 * (layout.pp - 1) if layout.overlap else 2 * (layout.pp - 1 + job.micro_batches * layout.chunks)
    return transfer_seconds("send", way, times, times * cut_bytes(job))


def replicas_exposed(job: Job, machine: Machine, number: int, compute: Compute) -> float:
    """Return the seconds of data-parallel traffic that nothing hides.

    Gradients hide behind the backward of the last micro-batch, gathered weights behind the first forward; with ZeRO-3
    both hide behind the computing of each micro-batch, but for the first unit's gather and the last unit's reduction.
    """
    layout, m = job.layout, job.micro_batches
    parts = data_parallel(job, number)
    gathers = seconds(machine, layout, [part for part in parts if part.op == "all_gather"])
    reduces = seconds(machine, layout, [part for part in parts if part.op != "all_gather"])
    if not layout.overlap:
        return gathers + reduces
    if layout.zero < 3:
        times = m if layout.zero == 2 else 1
        last = reduces / max(sum(part.calls for part in parts if part.op != "all_gather"), 1)
        hidden = max(times * last, reduces - times * compute.backward)
        return max(0.0, gathers - compute.forward) + (hidden if parts else 0.0)
    gather, reduce = gathers / m, reduces / m
    units = max(1, sum(each.layers for each in rank_stages(job.model, layout, number)))
    exposed = max(0.0, gather / 2 - compute.forward) + max(0.0, gather / 2 + reduce - compute.backward)
    return m * (exposed + (gather / 2 + reduce) / units)


def optimizer_seconds(job: Job, machine: Machine, number: int) -> float:
    """Return the seconds of Adam: its state is read and written, gradients are read and weights written."""
    layout, each = job.layout, STATE_BYTES[job.sizes.states]
    moved = 2 * each.optimizer + each.gradients + each.weights
    held = rank_stages(job.model, layout, number)
    shards = layout.sharded_over if layout.zero else 1
    own = sum(stage.parameters / shards + stage.routed / max(shards // layout.ep, 1) for stage in held)
    return own * moved / machine.hardware.memory_bandwidth


def step_time(job: Job, machine: Machine) -> StepTime:
    """Return the seconds of a step: the slowest stage does all micro-batches, and waits while the pipeline fills."""
    layout, m = job.layout, job.micro_batches
    works = {number: stage_work(job, machine, number) for number in outer_stages(layout.pp)}
    slowest = max(works, key=lambda number: works[number].total)
    work = works[slowest]
    bubble = 0.0
    if layout.pp > 1:
        usual = works[min(1, layout.pp - 1)]  # a stage between the first and the last, if there is one
        extra = sum(usual.traffic.values())
        compute = usual.compute
        third = extra / 3
        bubble = idle_seconds(layout, compute.forward + third, compute.backward + 2 * third, compute.weights)
    return StepTime(
        compute=m * (work.compute.forward + work.compute.backward),
        **{axis: m * cost for axis, cost in work.traffic.items()},
        pp=pipeline_exposed(job, machine),
        dp=replicas_exposed(job, machine, slowest, work.compute),
        bubble=bubble,
        optimizer=optimizer_seconds(job, machine, 0),
    )
