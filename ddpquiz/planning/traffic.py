"""Which collectives a rank calls in a step for each axis: how many, and with how many bytes.

`brought` is what ddpquiz records too: the bytes of the tensors that a rank hands to a call. For an all-gather that is
its own shard, for a reduce-scatter the whole tensor.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from ddpquiz.planning.layout import Layout, PipelineSchedule, Recompute
from ddpquiz.planning.network import sent_bytes

DDP_BUCKET = 25 << 20  # bytes of a bucket, and of the first one (torch.nn.parallel.DistributedDataParallel)
DDP_FIRST = 1 << 20


@dataclass(frozen=True, slots=True)
class Traffic:
    """The calls of one operator on one axis: how many a step, and the bytes that the rank brings to all of them."""

    axis: str
    op: str
    ranks: int
    calls: int
    brought: float

    @property
    def sent(self) -> float:
        """The bytes that the rank sends with a ring."""
        return sent_bytes(self.op, self.ranks, self.brought)


def ddp_buckets(tensors: Sequence[int], *, bucket: int = DDP_BUCKET, first: int = DDP_FIRST) -> list[int]:
    """Return the bytes of DDP's buckets for the bytes of gradients, in the order in which backward makes them.

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
    """Return the traffic of ZeRO-1 and 2: gradients are reduce-scattered, and updated weights gathered.

    `times` is how often a step reduces gradients: ZeRO-1 once, ZeRO-2 after each micro-batch. Bytes are of one rank's
    whole gradients and weights, and `calls` is in how many pieces they travel (arXiv 1910.02054, section 7).
    """
    return [
        Traffic("dp", "reduce_scatter", ranks, times * calls, times * gradients),
        Traffic("dp", "all_gather", ranks, calls, weights / ranks),
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
    """Return the traffic of HSDP between replicas: an all-reduce of each rank's shard of the gradients, once a step.

    `gradients` are the bytes of all shards together, and `calls` is in how many pieces they travel.
    """
    return Traffic("dp", "all_reduce", replicas, calls, gradients / shards)


def tensor_parallel(layers: int, activation: float, layout: Layout) -> list[Traffic]:
    """Return the traffic of tensor parallelism in some layers, for the bytes of a micro-batch's whole activation.

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


def pipeline_sends(layout: Layout, stage: int, times: int) -> int:
    """Return how many tensors a stage sends in a step: activations to the next chunk, gradients to the one before.

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
    """Return what a stage sends to its neighbours, for the bytes of one tensor."""
    sends = pipeline_sends(layout, stage, times)
    return [Traffic("pp", "send", layout.pp, sends, sends * activation)] if sends else []


def context_parallel(layers: int, keys_values: float, ranks: int) -> list[Traffic]:
    """Return the traffic of ring attention in some layers, for the bytes of a rank's own keys and values.

    Forward passes them on n - 1 times. Backward does so again, and their gradients travel n times, until they are home
    (arXiv 2310.01889, section 3).
    """
    if ranks == 1:
        return []
    sends = layers * (2 * (ranks - 1) + ranks)
    return [Traffic("cp", "send", ranks, sends, sends * keys_values)]


def expert_parallel(layers: int, routed: float, layout: Layout) -> list[Traffic]:
    """Return the traffic to experts in some layers, for the bytes of a rank's tokens once for each chosen expert.

    An all-to-all sends them there and one brings the results back, in forward and in backward (arXiv 2006.16668).
    """
    if layout.ep == 1:
        return []
    calls = layers * (6 if layout.recompute is Recompute.FULL else 4)
    return [Traffic("ep", "all_to_all", layout.ep, calls, calls * routed)]


def combine(parts: Sequence[Traffic], times: int) -> Iterator[Traffic]:
    """Yield the same traffic `times` times per step."""
    return (Traffic(each.axis, each.op, each.ranks, each.calls * times, each.brought * times) for each in parts)


@cache
def bucket_count(total: float, bucket: int = 40_000_000 * 4) -> int:
    """Return in how many pieces Megatron's distributed optimizer moves gradients: 40 million numbers each."""
    return max(1, -(-int(total) // bucket))
