"""How a job is laid out over GPUs, what each stage holds, and why a layout is refused, with the nearest that would do.

Closed forms say how long a stage of the pipeline idles (its bubble), and how many micro-batches it stores.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from math import gcd

from ddpquiz.errors import UserError
from ddpquiz.plan.model import (
    Transformer,
    embedding_parameters,
    expert_matrices,
    head_parameters,
    layer_parameters,
    moe_shared_parameters,
    small_parameters,
)

_SPARE_LAYERS = 3  # layers that the first and last stage may hold less: embedding, head and an extra prediction module


class Recompute(StrEnum):
    """What is computed again in backward instead of stored."""

    NONE = "none"
    SELECTIVE = "selective"  # attention's scores
    SELECTIVE_OP = "selective-op"  # all but every other matrix product and the result of attention
    FULL = "full"


class PipelineSchedule(StrEnum):
    """In which order a pipeline's stages do their work."""

    GPIPE = "gpipe"
    ONE_F_ONE_B = "1f1b"
    INTERLEAVED = "interleaved"
    ZERO_BUBBLE = "zb-h1"
    DUALPIPE = "dualpipe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The size of each axis, and how each works.

    Ranks are numbered with tp innermost, then cp, dp and pp. `ep` uses ranks of dp. `zero` is the stage of ZeRO, 3
    being FSDP; `shard` is over how many of the dp x cp ranks states are sharded, the others being replicas (HSDP), 0
    for all.
    `reshard`: ZeRO-3 frees the gathered weights of a layer after its forward, and shards gradients after each
    micro-batch. Without it, which is usual beside a pipeline, a rank holds both whole until the end of a step.
    `chunks` is the number of model chunks of a stage (interleaved). `overlap`: data-parallel traffic and the sends of a
    pipeline run beside computing, and with DualPipe the traffic to experts; `tp_overlap`: so does tensor-parallel
    traffic.
    """

    dp: int = 1
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    zero: int = 1
    shard: int = 0
    reshard: bool | None = None  # None: without a pipeline
    micro_batch: int = 1
    chunks: int = 1
    schedule: PipelineSchedule = PipelineSchedule.ONE_F_ONE_B
    recompute: Recompute = Recompute.NONE
    sequence_parallel: bool = True
    overlap: bool = True
    tp_overlap: bool = False

    @property
    def gpus(self) -> int:
        return self.dp * self.tp * self.pp * self.cp

    @property
    def replicas(self) -> int:
        """The ranks that hold the same part of the model, before ZeRO."""
        return self.dp * self.cp

    @property
    def sharded_over(self) -> int:
        return self.shard or self.replicas

    @property
    def keeps_gathered(self) -> bool:
        """Whether weights that ZeRO-3 has gathered stay until the end of a step, and gradients whole until then."""
        return self.zero == 3 and self.sharded_over > 1 and not (self.pp == 1 if self.reshard is None else self.reshard)

    def __str__(self) -> str:
        axes = [f"{axis} {size}" for axis in ("tp", "cp", "pp", "dp", "ep") if (size := getattr(self, axis)) > 1]
        more = f", {self.schedule}" if self.pp > 1 else ""
        chunks = f" x {self.chunks} chunks" if self.pp > 1 and self.chunks > 1 else ""
        shard = f" over {self.shard}" if self.shard else ""
        return (
            f"{' '.join(axes) or '1 GPU'}, ZeRO-{self.zero}{shard}{more}{chunks},"
            f" micro-batch {self.micro_batch}, recompute {self.recompute}"
        )


def micro_batches(layout: Layout, batch: int) -> int:
    """How many micro-batches a rank does in a step."""
    return batch // (layout.dp * layout.micro_batch)


def _spare_layers(layers: int, parts: int) -> int:
    """How many layers the first and last of equal parts hold less than the others."""
    return -layers % parts


class RefusalKind(StrEnum):
    """Which sizes do not go together, in words for a count of refusals."""

    HEADS = "tp does not divide the heads"
    LAYERS = "pp does not divide the layers"
    BATCH = "dp x micro-batch does not divide the batch"
    MICRO_BATCHES = "the schedule needs another number of micro-batches"
    EXPERTS = "ep does not divide the experts"
    SEQUENCE = "cp x tp does not divide the sequence"
    OTHER = "other sizes do not divide"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a layout cannot run: the kind, and a sentence with the nearest size that would do."""

    kind: RefusalKind
    sentence: str


def refusal(model: Transformer, layout: Layout, *, gpus: int, batch: int, sequence: int) -> Refusal | None:
    """Why a layout cannot run; None if it can."""
    return next(_refusals(model, layout, gpus, batch, sequence), None)


def check(model: Transformer, layout: Layout, *, gpus: int, batch: int, sequence: int) -> None:
    """Raise UserError with the refusal of a layout that cannot run."""
    if found := refusal(model, layout, gpus=gpus, batch=batch, sequence=sequence):
        raise UserError(found.sentence)


def _refusals(model: Transformer, layout: Layout, gpus: int, batch: int, sequence: int) -> Iterator[Refusal]:
    yield from _wrong_splits(model, layout, gpus, sequence)  # first: a number of GPUs does not help against these
    yield from _wrong_sizes(layout, gpus)
    yield from _wrong_batch(layout, batch)
    yield from _wrong_schedule(layout, batch)


def _wrong_sizes(layout: Layout, gpus: int) -> Iterator[Refusal]:
    if layout.gpus != gpus:
        inner = layout.tp * layout.pp * layout.cp
        fits = f"dp={gpus // inner}" if gpus % inner == 0 else f"{max(gpus // inner, 1) * inner} GPUs"
        product = f"tp {layout.tp} x cp {layout.cp} x pp {layout.pp} x dp {layout.dp} = {layout.gpus:,}"
        yield Refusal(RefusalKind.OTHER, f"{product} GPUs, but there are {gpus:,}; {fits} would do.")
    if layout.replicas % layout.sharded_over:
        near = _nearest(layout.shard, layout.replicas, lambda size: layout.replicas % size == 0)
        yield Refusal(
            RefusalKind.OTHER,
            f"shard={layout.shard} does not divide the {layout.replicas} ranks of dp x cp; shard={near} would do.",
        )


def _wrong_splits(model: Transformer, layout: Layout, gpus: int, sequence: int) -> Iterator[Refusal]:
    """Yield what a model's sizes do not allow; a size of tp or pp that would do fits the number of GPUs, too."""
    tp, room = layout.tp, gpus // (layout.cp * layout.pp)
    if model.heads % tp:
        fits = _nearest(tp, model.heads, lambda size: gcd(model.heads, room) % size == 0)
        yield Refusal(
            RefusalKind.HEADS, f"tp={tp} does not divide the {model.heads} attention heads; tp={fits} would do."
        )
    if model.latent is None and model.kv_heads % tp and tp % model.kv_heads:
        fits = _nearest(tp, model.heads, lambda size: gcd(model.heads, model.kv_heads, room) % size == 0)
        yield Refusal(
            RefusalKind.HEADS, f"tp={tp} does not divide the {model.kv_heads} key-value heads; tp={fits} would do."
        )
    if layout.pp > 1 and not splits_layers(model.layers, layout.pp * layout.chunks):
        stages = gpus // (tp * layout.cp)  # at most, and the size of pp must divide them
        fits = _nearest(
            layout.pp,
            model.layers + _SPARE_LAYERS,
            lambda size: size == 1 or (stages % size == 0 and splits_layers(model.layers, size * layout.chunks)),
        )
        chunks = f" x {layout.chunks} chunks" if layout.chunks > 1 else ""
        yield Refusal(
            RefusalKind.LAYERS,
            f"pp={layout.pp}{chunks} does not divide the {model.layers} layers, even with {_SPARE_LAYERS} fewer on the"
            f" first and last stage together; pp={fits} would do.",
        )
    if sequence % (layout.cp * (tp if layout.sequence_parallel else 1)):
        yield Refusal(
            RefusalKind.SEQUENCE, f"A sequence of {sequence:,} tokens is not divisible by cp x tp = {layout.cp * tp}."
        )
    if layout.ep > 1 and model.experts is None:
        yield Refusal(RefusalKind.EXPERTS, f"{model.name} has no experts; ep=1 would do.")
    elif model.experts and (model.experts.count % layout.ep or layout.replicas % layout.ep):
        count = model.experts.count
        fits = _nearest(layout.ep, count, lambda size: count % size == 0 and layout.replicas % size == 0)
        yield Refusal(
            RefusalKind.EXPERTS,
            f"ep={layout.ep} must divide {count} experts and dp x cp = {layout.replicas}; ep={fits} would do.",
        )


def _wrong_batch(layout: Layout, batch: int) -> Iterator[Refusal]:
    share = layout.dp * layout.micro_batch
    if batch % share or batch < share:
        fits = max(round(batch / share), 1) * share
        yield Refusal(
            RefusalKind.BATCH,
            f"A batch of {batch:,} sequences is not divisible by dp x micro-batch = {layout.dp} x"
            f" {layout.micro_batch}; a batch of {fits:,} would do.",
        )


def _wrong_schedule(layout: Layout, batch: int) -> Iterator[Refusal]:
    m, p = micro_batches(layout, batch), layout.pp
    if layout.chunks > 1 and layout.schedule is not PipelineSchedule.INTERLEAVED:
        yield Refusal(
            RefusalKind.OTHER,
            f"chunks={layout.chunks} needs the interleaved schedule; {layout.schedule} has one chunk a stage.",
        )
    if p == 1:
        return
    if layout.schedule is PipelineSchedule.INTERLEAVED and layout.chunks == 1:
        yield Refusal(
            RefusalKind.OTHER,
            "The interleaved schedule needs several chunks a stage; chunks=2 or the schedule 1f1b would do.",
        )
    if layout.schedule is PipelineSchedule.INTERLEAVED and m % p:
        yield Refusal(
            RefusalKind.MICRO_BATCHES,
            f"The interleaved schedule needs a multiple of pp = {p} micro-batches; there are {m}.",
        )
    if layout.schedule is PipelineSchedule.DUALPIPE and (p % 2 or m % 2 or m < 2 * p):
        yield Refusal(
            RefusalKind.MICRO_BATCHES,
            f"DualPipe needs an even pp and an even number of micro-batches, at least {2 * p}; there are {m}.",
        )


def splits_layers(layers: int, parts: int) -> bool:
    """True if layers can be split so: the first and last part may hold a little less than the others."""
    short = _spare_layers(layers, parts)
    return parts <= layers + _SPARE_LAYERS and short <= _SPARE_LAYERS and (layers + short) // parts >= max(short - 1, 1)


def _nearest(wanted: int, most: int, fits: Callable[[int], bool]) -> int:
    """The size nearest to the wanted one that fits, `most` being the largest that can; of two the smaller one.

    1 always fits.
    """
    sizes = range(1, min(2 * wanted, most) + 1)
    return min((size for size in sizes if fits(size)), key=lambda size: (abs(size - wanted), size))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One rank's part of the model.

    `parameters` are those that all ranks of dp x cp have alike, `routed` those of experts, which only dp x cp / ep
    ranks have alike. `head` and `embedding` say whether the stage has them, and `root` are their parameters.
    """

    number: int
    dense_layers: int
    moe_layers: int
    embedding: bool
    head: bool
    parameters: int
    routed: int
    root: int

    @property
    def layers(self) -> int:
        return self.dense_layers + self.moe_layers


@cache
def split_layer(model: Transformer, tp: int, *, moe: bool) -> int:
    """The parameters of a layer on one rank, routed experts aside: matrices / tp, and all norms and biases."""
    small = small_parameters(model)
    if not moe or model.experts is None:
        return (layer_parameters(model) - small) // tp + small
    router = model.hidden * model.experts.count
    return (moe_shared_parameters(model) - small - router) // tp + small + router


def layers_of(layers: int, stages: int, number: int) -> tuple[int, int]:
    """The first and the last layer + 1 of a stage; the outer stages may hold a little less than the others."""
    short = _spare_layers(layers, stages)
    each, before = (layers + short) // stages, min(short, 1)
    return max(each * number - before, 0), min(each * (number + 1) - before, layers)


@cache
def stage(model: Transformer, tp: int, pp: int, ep: int, number: int) -> Stage:
    """What a stage of a pipeline holds; the chunks of an interleaved schedule add up to the same."""
    start, end = layers_of(model.layers, pp, number)
    first_moe = model.layers - model.moe_layers
    dense = max(min(end, first_moe) - start, 0)
    moe = end - start - dense
    has_embedding, has_head = number == 0, number == pp - 1
    layers = dense * split_layer(model, tp, moe=False) + moe * split_layer(model, tp, moe=True)
    root = embedding_parameters(model) // tp if has_embedding else 0
    if has_head:
        root += model.hidden * (2 if model.norm_biases else 1)
        root += 0 if model.tied and has_embedding else head_parameters(model) // tp
    routed = moe * (model.experts.count // ep) * expert_matrices(model) // tp if model.experts else 0
    return Stage(
        number=number,
        dense_layers=dense,
        moe_layers=moe,
        embedding=has_embedding,
        head=has_head,
        parameters=layers + root,
        routed=routed,
        root=root,
    )


@cache
def _rank_stages(model: Transformer, sizes: tuple[int, int, int], number: int, *, both_ways: bool) -> tuple[Stage, ...]:
    tp, pp, ep = sizes
    own = stage(model, tp, pp, ep, number)
    return (own, stage(model, tp, pp, ep, pp - 1 - number)) if both_ways else (own,)


def rank_stages(model: Transformer, layout: Layout, number: int) -> tuple[Stage, ...]:
    """The stages on a rank: DualPipe runs the pipeline in both directions, so each rank has two."""
    both = layout.schedule is PipelineSchedule.DUALPIPE and layout.pp > 1
    return _rank_stages(model, (layout.tp, layout.pp, layout.ep), number, both_ways=both)


@cache
def usual_stage(model: Transformer, pp: int) -> int:
    """A stage between the first and the last that holds what most of them hold.

    It is the second; in a model whose first layers are dense, the first that has nothing but layers with experts.
    """
    dense = model.layers - model.moe_layers
    return next(
        (number for number in range(1, pp - 1) if layers_of(model.layers, pp, number)[0] >= dense), min(1, pp - 1)
    )


@cache
def outer_stages(model: Transformer, pp: int) -> tuple[int, ...]:
    """The stages that can be the fullest or the slowest: the first two, the last, and those where experts begin."""
    usual = usual_stage(model, pp)
    return tuple(sorted({0, min(1, pp - 1), max(usual - 1, 0), usual, pp - 1}))


@dataclass(frozen=True, slots=True)
class Bubble:
    """The seconds of a step in which a stage of a pipeline idles.

    `formula` and `seconds` say the same: p stages, v chunks, and the seconds F, B and W of a stage's forward, backward
    and weight gradients for a micro-batch.
    """

    formula: str
    source: str
    seconds: Callable[[int, int, float, float, float], float]


_FILL_AND_DRAIN = Bubble(
    "(p - 1)(F + B)",
    "arXiv 2104.04473, section 2.2",
    lambda p, _, forward, backward, __: (p - 1) * (forward + backward),
)
BUBBLES = {
    PipelineSchedule.GPIPE: _FILL_AND_DRAIN,
    PipelineSchedule.ONE_F_ONE_B: _FILL_AND_DRAIN,
    PipelineSchedule.INTERLEAVED: Bubble(
        "(p - 1)(F + B) / v",
        "arXiv 2104.04473, section 2.2",
        lambda p, v, forward, backward, _: (p - 1) * (forward + backward) / v,
    ),
    PipelineSchedule.ZERO_BUBBLE: Bubble(
        "(p - 1)(F + B - 2W)",
        "arXiv 2401.10241, section 2.3",
        lambda p, _, forward, backward, weights: (p - 1) * (forward + backward - 2 * weights),
    ),
    PipelineSchedule.DUALPIPE: Bubble(  # (p / 2 - 1)(F&B + B - 3W) with F&B = F + B
        "(p / 2 - 1)(F + 2B - 3W)",
        "arXiv 2412.19437, table 2",
        lambda p, _, forward, backward, weights: (p / 2 - 1) * (forward + 2 * backward - 3 * weights),
    ),
}


def idle_seconds(layout: Layout, forward: float, backward: float, weights: float) -> float:
    """The seconds of a step in which a stage is idle, by its seconds for a micro-batch."""
    if layout.pp == 1:
        return 0.0
    return BUBBLES[layout.schedule].seconds(layout.pp, layout.chunks, forward, backward, weights)


def in_flight(layout: Layout, micro_batches: int, number: int) -> float:
    """The most micro-batches whose activations a stage stores at once.

    GPipe: all m. 1F1B: p minus the stage's number; ZB-H1: at most p. Interleaved: of chunks of 1/v (arXiv 2205.05198,
    section 4.2.3, for the first stage). DualPipe: p + 1, over both directions (arXiv 2412.19437, table 2).
    """
    p, m, v = layout.pp, micro_batches, layout.chunks
    match layout.schedule:
        case _ if p == 1:
            return 1
        case PipelineSchedule.GPIPE:
            return m
        case PipelineSchedule.INTERLEAVED:
            return min(m * v, 2 * (p - number - 1) + (v - 1) * p + 1) / v
        case PipelineSchedule.ZERO_BUBBLE:
            return min(m, p)
        case PipelineSchedule.DUALPIPE:
            return p + 1
    return min(m, p - number)
