"""All collectives of a step on one rank: what its stage, its layout and its micro-batches ask for."""

from collections.abc import Iterator
from dataclasses import dataclass

from ddpquiz.planning.layout import Layout, micro_batches
from ddpquiz.planning.memory import STATE_BYTES, Sizes, key_value_numbers, rank_tokens
from ddpquiz.planning.model import Transformer
from ddpquiz.planning.stages import Stage, rank_stages, split_layer
from ddpquiz.planning.traffic import (
    Traffic,
    bucket_count,
    combine,
    context_parallel,
    expert_parallel,
    fully_sharded,
    pipeline,
    replicas_of_shards,
    replicated,
    sharded_optimizer,
    tensor_parallel,
)

NUMBER = 2  # bytes of an activation, and of a weight as it travels


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
    """Return the traffic of a rank of one stage in a step, one entry for each operator of a group."""
    parts = [
        *data_parallel(job, number),
        *combine(list(layer_traffic(job, number)), job.micro_batches),
        *pipeline(job.layout, number, job.micro_batches, cut_bytes(job)),
    ]
    merged: dict[tuple[str, str, int], Traffic] = {}
    for part in parts:
        key = (part.axis, part.op, part.ranks)
        calls, brought = (merged[key].calls, merged[key].brought) if key in merged else (0, 0.0)
        merged[key] = Traffic(*key, calls + part.calls, brought + part.brought)
    return list(merged.values())


def cut_bytes(job: Job) -> float:
    """Return the bytes of an activation between two stages: each rank of tp sends its part (arXiv 2104.04473, 4.1)."""
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
    """Return what the replicas of a rank send: for its own parameters over dp x cp, for experts over dp x cp / ep."""
    found: list[Traffic] = []
    for held in rank_stages(job.model, job.layout, number):
        if job.layout.replicas > 1:
            found += _replicas(job, held, held.parameters, job.layout.replicas)
        if held.routed and job.layout.replicas > job.layout.ep:
            found += _replicas(job, held, held.routed, job.layout.replicas // job.layout.ep)
    return found


def _replicas(job: Job, held: Stage, parameters: int, ranks: int) -> list[Traffic]:
    layout, each = job.layout, STATE_BYTES[job.sizes.states]
    shards = min(layout.sharded_over, ranks)
    gradients = parameters * each.gradients
    match layout.zero:
        case 0:
            return replicated([gradients // max(held.layers, 1)] * max(held.layers, 1), ranks)
        case 1 | 2:
            times = job.micro_batches if layout.zero == 2 else 1
            found = sharded_optimizer(
                gradients, parameters * NUMBER, shards, calls=bucket_count(gradients), times=times
            )
        case _:
            units = fsdp_units(job.model, layout.tp, held) if parameters == held.parameters else [0, parameters]
            found = fully_sharded(units, shards, weight=NUMBER, gradient=each.gradients, times=job.micro_batches)
            found = [part for part in found if shards > 1]
    if ranks > shards:
        found.append(replicas_of_shards(gradients, shards, ranks // shards, calls=held.layers + 1))
    return found


def fsdp_units(model: Transformer, tp: int, held: Stage) -> list[int]:
    """Return the parameters of each unit that FSDP gathers: the rest of the model first, then each layer."""
    layers = [split_layer(model, tp, moe=False)] * held.dense_layers + [split_layer(model, tp, moe=True)] * (
        held.moe_layers
    )
    return [held.parameters - sum(layers), *layers]
