"""The collectives of a step on one rank: how many each axis calls, with how many bytes, and how long they take.

A collective takes alpha for each step of its algorithm and beta for each byte, over the links that its group spans.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from ddpquiz.plan.activations import NUMBER
from ddpquiz.plan.hardware import Hardware
from ddpquiz.plan.layout import Layout, PipelineSchedule, Recompute, Stage, micro_batches, rank_stages, split_layer
from ddpquiz.plan.memory import Sizes, key_value_numbers, rank_tokens
from ddpquiz.plan.model import Transformer


@dataclass(frozen=True, slots=True)
class Path:
    """What a group's ring runs over: seconds of all hops of one round, and bytes per second of a rank."""

    ranks: int
    round_latency: float
    bytes_per_second: float
    in_machine: bool


@cache
def path(hardware: Hardware, ranks: int, stride: int) -> Path:
    """The path of a group whose ranks are `stride` apart.

    A ring that leaves the machine enters and leaves it through the network cards of all its members there, so the more
    of them are in one machine, the faster it is, up to the links inside. Each round passes every hop once.
    """
    near, far = hardware.near, hardware.far
    if ranks * stride <= near.ranks:
        return Path(ranks, (ranks - 1) * near.latency, near.bytes_per_second, in_machine=True)
    inside = max(1, min(ranks, near.ranks // stride))
    machines = -(-ranks // inside)
    latency = (machines - 1) * far.latency + (ranks - machines) * near.latency
    speed = min(near.bytes_per_second, far.bytes_per_second * inside) if inside > 1 else far.bytes_per_second
    return Path(ranks, latency, speed, in_machine=False)


def exchange_path(hardware: Hardware, ranks: int, stride: int) -> Path:
    """The path of an all-to-all: each rank sends what leaves the machine, (n-g)/n, through its own card.

    No member carries it for another, so more of them in a machine, g, only let more stay inside.
    """
    ring = path(hardware, ranks, stride)
    if ring.in_machine:
        return ring
    inside = max(1, min(ranks, hardware.near.ranks // stride))
    speed = hardware.far.bytes_per_second * (ranks - 1) / (ranks - inside)
    return replace(ring, bytes_per_second=min(hardware.near.bytes_per_second, speed))


def rounds(op: str, ranks: int) -> float:
    """How often a ring goes round: twice for an all-reduce, once for others; a send passes one hop of it."""
    if op == "send":
        return 1 / max(ranks - 1, 1)
    return 2 if op == "all_reduce" else 1


def _sent_bytes(op: str, ranks: int, input_bytes: float) -> float:
    """The bytes that a rank sends with a ring, for the bytes of the tensors that it brings.

    Patarasuk and Yuan 2009; an all-gather brings only the rank's own part.
    """
    match op:
        case "all_reduce":
            return 2 * (ranks - 1) / ranks * input_bytes
        case "all_gather":
            return (ranks - 1) * input_bytes
        case "reduce_scatter" | "all_to_all":
            return (ranks - 1) / ranks * input_bytes
    return input_bytes


def transfer_seconds(op: str, way: Path, calls: float, input_bytes: float) -> float:
    """The seconds of some calls whose inputs are `input_bytes` together: calls x alpha x hops + bytes x beta."""
    return (
        calls * rounds(op, way.ranks) * way.round_latency
        + _sent_bytes(op, way.ranks, input_bytes) / way.bytes_per_second
    )


_DDP_BUCKET = 25 << 20  # bytes of a bucket, and of the first one (torch.nn.parallel.DistributedDataParallel)
_DDP_FIRST = 1 << 20


@dataclass(frozen=True, slots=True)
class Traffic:
    """The calls of one operator on one axis: how many a step, and the bytes that the rank brings to all of them."""

    axis: str
    op: str
    ranks: int
    calls: int
    input_bytes: float

    @property
    def sent(self) -> float:
        """The bytes that the rank sends with a ring."""
        return _sent_bytes(self.op, self.ranks, self.input_bytes)


def ddp_buckets(tensors: Sequence[int], *, bucket: int = _DDP_BUCKET, first: int = _DDP_FIRST) -> list[int]:
    """The bytes of DDP's buckets for the bytes of gradients, in the order in which backward makes them.

    A bucket is closed as soon as it has reached its limit (`_compute_bucket_assignment_by_size` in torch).
    """
    buckets: list[int] = []
    size = 0
    for tensor in tensors:
        size += tensor
        if size >= (bucket if buckets else first):
            buckets.append(size)
            size = 0
    return [*buckets, size] if size else buckets


def replicated(tensors: Sequence[int], ranks: int) -> list[Traffic]:
    """Return DDP's traffic (ZeRO-0): an all-reduce of each bucket of gradients, once a step."""
    return [Traffic("dp", "all_reduce", ranks, len(ddp_buckets(tensors)), sum(tensors))]


def sharded_optimizer(gradients: float, weights: float, ranks: int, *, calls: int, times: int = 1) -> list[Traffic]:
    """The traffic of ZeRO-1 and 2: gradients are reduce-scattered, and updated weights gathered.

    `times` is how often a step reduces gradients: ZeRO-1 once, ZeRO-2 after each micro-batch. Bytes are of one rank's
    whole gradients and weights, and `calls` is in how many pieces they travel (arXiv 1910.02054, section 7).
    """
    return [
        Traffic("dp", "reduce_scatter", ranks, times * calls, times * gradients),
        Traffic("dp", "all_gather", ranks, calls, weights / ranks),
    ]


def gathered_once(units: Sequence[int], ranks: int, *, weight: int, gradient: int) -> list[Traffic]:
    """Return FSDP2's traffic without resharding: each unit is gathered, and its gradients reduced, once a step."""
    return [
        Traffic("dp", "all_gather", ranks, len(units), sum(units) * weight / ranks),
        Traffic("dp", "reduce_scatter", ranks, len(units), sum(units) * gradient),
    ]


def fully_sharded(units: Sequence[int], ranks: int, *, weight: int, gradient: int, times: int = 1) -> list[Traffic]:
    """Return FSDP2's traffic (ZeRO-3), for the parameters of each unit, that of the root module first.

    Forward gathers each unit; backward gathers each again but the root, which stays gathered; then a reduce-scatter of
    each unit's gradients (`fully_shard`, reshard_after_forward). All that for each of `times` micro-batches. `weight`
    and `gradient` are the bytes of a number as it travels.
    """
    root, *others = units
    gathered = root + 2 * sum(others)
    return [
        Traffic("dp", "all_gather", ranks, times * (2 * len(units) - 1), times * gathered * weight / ranks),
        Traffic("dp", "reduce_scatter", ranks, times * len(units), times * sum(units) * gradient),
    ]


def replicas_of_shards(gradients: float, shards: int, replicas: int, *, calls: int) -> Traffic:
    """The traffic of HSDP between replicas: an all-reduce of each rank's shard of the gradients, once a step.

    `gradients` are the bytes of all shards together, and `calls` is in how many pieces they travel.
    """
    return Traffic("dp", "all_reduce", replicas, calls, gradients / shards)


def tensor_parallel(layers: int, activation: float, layout: Layout) -> list[Traffic]:
    """The traffic of tensor parallelism in some layers, for the bytes of a micro-batch's whole activation.

    An all-reduce after attention and one after the MLP, in forward and in backward (arXiv 1909.08053, section 3). With
    sequence parallelism each becomes a reduce-scatter and an all-gather, and backward gathers both inputs once more
    (arXiv 2205.05198, section 4.2.2). Full recomputation repeats those of forward.
    """
    ranks, passes = layout.tp, 3 if layout.recompute is Recompute.FULL else 2
    if ranks == 1:
        return []
    if not layout.sequence_parallel:
        return [Traffic("tp", "all_reduce", ranks, 2 * passes * layers, 2 * passes * layers * activation)]
    gathers, scatters = (2 * passes + 2) * layers, 2 * passes * layers
    return [
        Traffic("tp", "all_gather", ranks, gathers, gathers * activation / ranks),
        Traffic("tp", "reduce_scatter", ranks, scatters, scatters * activation),
    ]


def _pipeline_sends(layout: Layout, stage: int, times: int) -> int:
    """How many tensors a stage sends in a step: activations to the next chunk, gradients to the one before.

    With v chunks, the last stage sends those of all its chunks but the last to the first stage, and back.
    """
    p, v = layout.pp, layout.chunks
    if p == 1:
        return 0
    if layout.schedule is PipelineSchedule.DUALPIPE:  # half of the micro-batches each way, and two stages on each rank
        ahead = times // 2 * ((stage < p - 1) + (stage > 0))
        return 2 * ahead
    forward = times * (v - (stage == p - 1))
    backward = times * (v - (stage == 0))
    return forward + backward


def pipeline(layout: Layout, stage: int, times: int, activation: float) -> list[Traffic]:
    """What a stage sends to its neighbors, for the bytes of one tensor."""
    sends = _pipeline_sends(layout, stage, times)
    return [Traffic("pp", "send", layout.pp, sends, sends * activation)] if sends else []


def context_parallel(layers: int, keys_values: float, ranks: int) -> list[Traffic]:
    """The traffic of ring attention in some layers, for the bytes of a rank's own keys and values.

    Forward passes them on n - 1 times. Backward does so again, and their gradients travel n times, until they are home
    (arXiv 2310.01889, section 3).
    """
    if ranks == 1:
        return []
    sends = layers * (2 * (ranks - 1) + ranks)
    return [Traffic("cp", "send", ranks, sends, sends * keys_values)]


def expert_parallel(layers: int, routed: float, layout: Layout) -> list[Traffic]:
    """The traffic to experts in some layers, for the bytes of a rank's tokens once for each chosen expert.

    An all-to-all sends them there and one brings the results back, in forward and in backward (arXiv 2006.16668).
    """
    if layout.ep == 1:
        return []
    calls = layers * (6 if layout.recompute is Recompute.FULL else 4)
    return [Traffic("ep", "all_to_all", layout.ep, calls, calls * routed)]


def _combine(parts: Sequence[Traffic], times: int) -> Iterator[Traffic]:
    """Yield the same traffic `times` times per step."""
    return (Traffic(each.axis, each.op, each.ranks, each.calls * times, each.input_bytes * times) for each in parts)


@cache
def _bucket_count(total: float, bucket: int = 40_000_000 * 4) -> int:
    """Return in how many pieces Megatron's distributed optimizer moves gradients: 40 million numbers each."""
    return max(1, -(-int(total) // bucket))


@dataclass(frozen=True, slots=True)
class Job:
    """A model on a layout, with the sizes of a step."""

    model: Transformer
    layout: Layout
    sizes: Sizes

    @property
    def micro_batches(self) -> int:
        return micro_batches(self.layout, self.sizes.batch)

    @property
    def tokens(self) -> float:
        """Tokens of a micro-batch on one rank."""
        return rank_tokens(self.layout, self.sizes.sequence)


def step_traffic(job: Job, number: int) -> list[Traffic]:
    """The traffic of a rank of one stage in a step, one entry for each operator of a group."""
    parts = [
        *data_parallel(job, number),
        *_combine(list(layer_traffic(job, number)), job.micro_batches),
        *pipeline(job.layout, number, job.micro_batches, cut_bytes(job)),
    ]
    merged: dict[tuple[str, str, int], Traffic] = {}
    for part in parts:
        key = (part.axis, part.op, part.ranks)
        calls, input_bytes = (merged[key].calls, merged[key].input_bytes) if key in merged else (0, 0.0)
        merged[key] = Traffic(*key, calls + part.calls, input_bytes + part.input_bytes)
    return list(merged.values())


def cut_bytes(job: Job) -> float:
    """The bytes of an activation between two stages: each rank of tp sends its part (arXiv 2104.04473, 4.1)."""
    return NUMBER * job.tokens * job.model.hidden / job.layout.tp


def layer_traffic(job: Job, number: int) -> Iterator[Traffic]:
    """Yield what the layers of a rank send for one micro-batch."""
    model, layout = job.model, job.layout
    held = rank_stages(model, layout, number)
    layers = sum(each.layers for each in held) / len(held)
    moe = sum(each.moe_layers for each in held) / len(held)
    activation = NUMBER * job.tokens * model.hidden
    yield from tensor_parallel(round(layers), activation, layout)
    yield from context_parallel(round(layers), NUMBER * job.tokens * key_value_numbers(model) / layout.tp, layout.cp)
    if model.experts and moe:
        share = layout.tp if layout.sequence_parallel else 1
        yield from expert_parallel(round(moe), activation * model.experts.active / share, layout)


def data_parallel(job: Job, number: int) -> list[Traffic]:
    """What the replicas of a rank send: for its own parameters over dp x cp, for experts over dp x cp / ep."""
    found: list[Traffic] = []
    for held in rank_stages(job.model, job.layout, number):
        if job.layout.replicas > 1:
            found += _replicas(job, held, held.parameters, job.layout.replicas)
        if held.routed and job.layout.replicas > job.layout.ep:
            found += _replicas(job, held, held.routed, job.layout.replicas // job.layout.ep)
    return found


def _replicas(job: Job, held: Stage, parameters: int, ranks: int) -> list[Traffic]:
    layout, each = job.layout, job.sizes.state_bytes
    shards = min(layout.sharded_over, ranks)
    gradients = parameters * each.gradients
    match layout.zero:
        case 0:
            return replicated([gradients // max(held.layers, 1)] * max(held.layers, 1), ranks)
        case 1 | 2:
            times = job.micro_batches if layout.zero == 2 else 1
            found = sharded_optimizer(
                gradients, parameters * NUMBER, shards, calls=_bucket_count(gradients), times=times
            )
        case _:
            units = _fsdp_units(job.model, layout.tp, held) if parameters == held.parameters else [0, parameters]
            if layout.keeps_gathered:
                found = gathered_once(units, shards, weight=NUMBER, gradient=each.gradients)
            else:
                found = fully_sharded(units, shards, weight=NUMBER, gradient=each.gradients, times=job.micro_batches)
            found = [part for part in found if shards > 1]
    if ranks > shards:
        found.append(replicas_of_shards(gradients, shards, ranks // shards, calls=held.layers + 1))
    return found


def _fsdp_units(model: Transformer, tp: int, held: Stage) -> list[int]:
    """The parameters of each unit that FSDP gathers: the rest of the model first, then each layer."""
    layers = [split_layer(model, tp, moe=False)] * held.dense_layers + [split_layer(model, tp, moe=True)] * (
        held.moe_layers
    )
    return [held.parameters - sum(layers), *layers]
