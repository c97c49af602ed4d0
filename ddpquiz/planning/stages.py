"""What one stage of a pipeline holds: its layers, and the parameters that are on each of its ranks."""

from dataclasses import dataclass
from functools import cache

from ddpquiz.planning.layout import Layout, PipelineSchedule, spare_layers
from ddpquiz.planning.model import (
    Transformer,
    embedding_parameters,
    expert_matrices,
    head_parameters,
    layer_parameters,
    moe_shared_parameters,
    small_parameters,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One rank's part of the model.

    `parameters` are those that all ranks of dp x cp have alike, `routed` those of experts, which only dp x cp / ep
    ranks have alike. `head` and `embedding` say whether the stage has them.
    """

    number: int
    dense_layers: int
    moe_layers: int
    embedding: bool
    head: bool
    parameters: int
    routed: int

    @property
    def layers(self) -> int:
        return self.dense_layers + self.moe_layers


@cache
def split_layer(model: Transformer, tp: int, *, moe: bool) -> int:
    """Return the parameters of a layer on one rank, routed experts aside: matrices / tp, and all norms and biases."""
    small = small_parameters(model)
    if not moe or model.experts is None:
        return (layer_parameters(model) - small) // tp + small
    router = model.hidden * model.experts.count
    return (moe_shared_parameters(model) - small - router) // tp + small + router


def layers_of(layers: int, stages: int, number: int) -> tuple[int, int]:
    """Return the first and the last layer + 1 of a stage; the outer stages may hold a little less than the others."""
    short = spare_layers(layers, stages)
    each, before = (layers + short) // stages, min(short, 1)
    return max(each * number - before, 0), min(each * (number + 1) - before, layers)


@cache
def stage(model: Transformer, tp: int, pp: int, ep: int, number: int) -> Stage:
    """Return what a stage of a pipeline holds; the chunks of an interleaved schedule add up to the same."""
    start, end = layers_of(model.layers, pp, number)
    first_moe = model.layers - model.moe_layers
    dense = max(min(end, first_moe) - start, 0)
    moe = end - start - dense
    has_embedding, has_head = number == 0, number == pp - 1
    total = dense * split_layer(model, tp, moe=False) + moe * split_layer(model, tp, moe=True)
    total += embedding_parameters(model) // tp if has_embedding else 0
    if has_head:
        total += model.hidden * (2 if model.norm_biases else 1)
        total += 0 if model.tied and has_embedding else head_parameters(model) // tp
    routed = moe * (model.experts.count // ep) * expert_matrices(model) // tp if model.experts else 0
    return Stage(
        number=number,
        dense_layers=dense,
        moe_layers=moe,
        embedding=has_embedding,
        head=has_head,
        parameters=total,
        routed=routed,
    )


@cache
def _rank_stages(model: Transformer, sizes: tuple[int, int, int], number: int, *, both_ways: bool) -> tuple[Stage, ...]:
    tp, pp, ep = sizes
    own = stage(model, tp, pp, ep, number)
    return (own, stage(model, tp, pp, ep, pp - 1 - number)) if both_ways else (own,)


def rank_stages(model: Transformer, layout: Layout, number: int) -> tuple[Stage, ...]:
    """Return the stages on a rank: DualPipe runs the pipeline in both directions, so each rank has two."""
    both = layout.schedule is PipelineSchedule.DUALPIPE and layout.pp > 1
    return _rank_stages(model, (layout.tp, layout.pp, layout.ep), number, both_ways=both)


@cache
def outer_stages(pp: int) -> tuple[int, ...]:
    """Return the stages that can be the fullest or the slowest: the first two and the last."""
    return tuple(sorted({0, min(1, pp - 1), pp - 1}))
