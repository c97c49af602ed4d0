"""Bytes on the fullest rank: weights, gradients, optimizer state, activations, logits and communication buffers."""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from ddpquiz.plan.activations import (
    NUMBER,
    Loss,
    Split,
    input_bytes,
    kept_bytes,
    layer_bytes,
    logit_bytes,
)
from ddpquiz.plan.layout import (
    Layout,
    Recompute,
    Stage,
    in_flight,
    micro_batches,
    outer_stages,
    rank_stages,
    split_layer,
)
from ddpquiz.plan.model import Transformer, expert_matrices

# DeepSpeed's ZeRO-1 and 2 gather and reduce 5e8 numbers at a time, unless a config sets its two bucket sizes. For both
# they hold 4.5 times as much in 16 bits: 9 GB (the DeepSpeed page of Transformers' documentation, "overlap_comm").
BUCKET, BUCKET_BYTES = 500_000_000, 18
Peaks = dict[int, tuple[float, float]]  # by the number of a stage: bytes of activations and of logits


class States(StrEnum):
    """A convention of bytes per parameter."""

    MEGATRON = "megatron"
    ZERO = "zero"
    DEEPSPEED = "deepspeed"
    FP32 = "fp32"


@dataclass(frozen=True, slots=True)
class StateBytes:
    """Bytes per parameter of weights, gradients and optimizer state."""

    weights: int
    gradients: int
    optimizer: int

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimizer


STATE_BYTES = {
    States.MEGATRON: StateBytes(2, 4, 12),  # bf16 weights, fp32 gradients, fp32 copy and Adam: 18, or 6 + 12 / d
    States.ZERO: StateBytes(2, 2, 12),  # 16-bit gradients: 16 bytes (arXiv 1910.02054, section 3.1)
    States.DEEPSPEED: StateBytes(2, 6, 12),  # its BF16_Optimizer keeps 16-bit gradients beside those in fp32
    States.FP32: StateBytes(4, 4, 8),  # fp32 weights and gradients, and Adam: what PyTorch does, FSDP2 too
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMemory:
    """Bytes on one rank by what they hold; `stage` is its place in the pipeline."""

    stage: int
    weights: float
    gradients: float
    optimizer: float
    activations: float
    logits: float
    buffers: float

    @property
    def states(self) -> float:
        return self.weights + self.gradients + self.optimizer

    @property
    def total(self) -> float:
        return self.states + self.activations + self.logits + self.buffers


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What decides memory beside model and layout: sequences per step, tokens of each, and the conventions."""

    batch: int
    sequence: int
    states: States | None = None  # None: those of Megatron-LM
    flash: bool = True
    loss: Loss | None = None  # None: that of the software whose states these are
    worst: bool = False  # what is not stated is what needs most memory

    @property
    def state_kind(self) -> States:
        return self.states or (States.DEEPSPEED if self.worst else States.MEGATRON)

    @property
    def state_bytes(self) -> StateBytes:
        return STATE_BYTES[self.state_kind]

    @property
    def loss_kind(self) -> Loss:
        if self.worst:
            return self.loss or Loss.GATHERED
        usual = Loss.IN_PLACE if self.state_kind in (States.MEGATRON, States.DEEPSPEED) else Loss.EAGER
        return self.loss or usual

    @property
    def keeps_gathered_inputs(self) -> bool:
        """True if tp keeps the inputs that it has gathered, as DTensor does; Megatron-LM gathers them again."""
        return self.states is States.FP32 or (self.states is None and self.worst)

    def uses_deepspeed(self, zero: int) -> bool:
        """True if DeepSpeed is stated to shard optimizer state or gradients.

        A plan that states nothing is not taken for DeepSpeed's: its buckets are smaller with two lines of a config.
        """
        return zero in (1, 2) and self.states in (States.ZERO, States.DEEPSPEED)

    @property
    def cautious(self) -> "Sizes":
        """The same with the states and the loss that need most memory, unless they are stated."""
        return replace(self, worst=True)

    @property
    def open_options(self) -> list[str]:
        """The options that would state how the software uses memory, and that are not given."""
        return [f"--{name}" for name in ("states", "loss") if getattr(self, name) is None]


def zero_bytes(parameters: float, shards: int, zero: int, each: StateBytes) -> tuple[float, float, float]:
    """The bytes of weights, gradients and optimizer state on one rank (arXiv 1910.02054, figure 1).

    ZeRO-1 shards the optimizer state over `shards` ranks, ZeRO-2 also gradients, ZeRO-3 also weights.
    """
    return (
        parameters * each.weights / (shards if zero >= 3 else 1),
        parameters * each.gradients / (shards if zero >= 2 else 1),
        parameters * each.optimizer / (shards if zero >= 1 else 1),
    )


def _stage_states(layout: Layout, held: Stage, each: StateBytes) -> tuple[float, float, float]:
    """The bytes of a stage's weights, gradients and optimizer state on one rank."""
    shards = layout.sharded_over
    dense = zero_bytes(held.parameters, shards, layout.zero, each)
    if not held.routed:
        return dense
    routed = zero_bytes(held.routed, max(shards // layout.ep, 1), layout.zero, each)
    return dense[0] + routed[0], dense[1] + routed[1], dense[2] + routed[2]


def rank_tokens(layout: Layout, sequence: int) -> float:
    """The tokens of a micro-batch on one rank: context parallelism splits each sequence."""
    return layout.micro_batch * sequence / layout.cp


def stage_activations(model: Transformer, layout: Layout, held: Stage, sizes: Sizes) -> tuple[float, float]:
    """Return (bytes that a micro-batch stores in a stage, bytes of one layer that backward computes again).

    DeepSpeed's pipeline also keeps what a stage sent on until its backward (`pipe_buffers` of its engine).
    """
    tokens, split = rank_tokens(layout, sizes.sequence), Split(layout.tp, layout.sequence_parallel)
    scores = 0 if sizes.flash else sizes.sequence
    regathered = _regathered_bytes(model, layout, sizes)

    def layer(*, moe: bool, scores: int) -> float:
        return layer_bytes(model, tokens, split, moe=moe, scores=scores) + regathered

    stored = again = 0.0
    if layout.recompute in (Recompute.FULL, Recompute.SELECTIVE_OP):
        stored += held.layers * input_bytes(model, tokens, split)
        if layout.recompute is Recompute.SELECTIVE_OP:
            kept = partial(kept_bytes, model, tokens, split)
            stored += held.dense_layers * kept(moe=False) + held.moe_layers * kept(moe=True)
        again = layer(moe=held.moe_layers > 0, scores=scores) if held.layers else 0.0
    else:
        kept_scores = scores if layout.recompute is Recompute.NONE else 0
        for count, moe in ((held.dense_layers, False), (held.moe_layers, True)):
            if count:
                stored += count * layer(moe=moe, scores=kept_scores)
                again = layer(moe=moe, scores=scores) - layer(moe=moe, scores=kept_scores)
    if model.dropout and held.embedding:
        stored += input_bytes(model, tokens, split) / NUMBER
    if layout.pp > 1 and not held.head and sizes.uses_deepspeed(layout.zero):
        stored += input_bytes(model, tokens, split)
    return stored, again


def _regathered_bytes(model: Transformer, layout: Layout, sizes: Sizes) -> float:
    """The inputs of attention and of the MLP as tp has gathered them, where they are kept for backward."""
    if layout.tp == 1 or not layout.sequence_parallel or not sizes.keeps_gathered_inputs:
        return 0.0
    return 2 * NUMBER * rank_tokens(layout, sizes.sequence) * model.hidden


def _gathered(model: Transformer, layout: Layout, sizes: Sizes, held: tuple[Stage, ...]) -> list[tuple[float, int]]:
    """The whole weights and gradients that ZeRO-3 makes of a rank's shards, for a time, as `buffer_parts` has them."""
    weight, gradient = NUMBER, sizes.state_bytes.gradients
    whole = sum(each.parameters + each.routed for each in held)
    if layout.keeps_gathered:
        return [(whole, weight + gradient)]
    moe = model.moe_layers > 0
    layer = split_layer(model, layout.tp, moe=moe)
    if moe and model.experts:
        layer += model.experts.count // layout.ep * expert_matrices(model) // layout.tp
    root = sum(each.root for each in held)
    return [(layer, 2 * weight + gradient), *([(root, weight + gradient)] if root else [])]


def buffer_parts(model: Transformer, layout: Layout, sizes: Sizes, held: tuple[Stage, ...]) -> list[tuple[float, int]]:
    """The buffers of communication on one rank: how many numbers, and the bytes that are held for each.

    ZeRO-3: the gathered weights of two layers, the current and the next, and the whole gradient of one; those of
    embedding and head, which stay gathered. Without resharding, the weights and gradients of all layers. Pipeline: an
    activation received and one sent. Context: the keys and values of a neighbor, twice. DeepSpeed: its buckets.
    """
    tokens = rank_tokens(layout, sizes.sequence)
    parts = _gathered(model, layout, sizes, held) if layout.zero >= 3 and layout.sharded_over > 1 else []
    if sizes.uses_deepspeed(layout.zero):
        parts.append((min(BUCKET, sum(each.parameters + each.routed for each in held)), BUCKET_BYTES))
    if layout.pp > 1:
        parts.append((tokens * model.hidden / layout.tp, 2 * NUMBER))
    if layout.cp > 1:
        parts.append((tokens * key_value_numbers(model) / layout.tp, 2 * NUMBER))
    return parts


def key_value_numbers(model: Transformer) -> int:
    """The numbers of a token's keys and values, or of the latent vector from which both follow."""
    if latent := model.latent:
        return latent.key_rank + latent.rotary
    return 2 * model.kv_heads * model.head_size


def _peak_activations(model: Transformer, layout: Layout, sizes: Sizes, number: int) -> tuple[float, float]:
    """The bytes of activations and of logits on a rank of one stage at its peak; ZeRO does not change them.

    The logits are gone when backward computes layers again, so of the two only the larger counts.
    """
    held = rank_stages(model, layout, number)
    stored = again = 0.0
    for each in held:
        one, working = stage_activations(model, layout, each, sizes)
        stored, again = stored + one / len(held), max(again, working)
    count = in_flight(layout, micro_batches(layout, sizes.batch), number)
    head = any(each.head for each in held)
    tokens = rank_tokens(layout, sizes.sequence)
    logits = logit_bytes(model, tokens, tp=layout.tp, loss=sizes.loss_kind) if head else 0.0
    return count * stored + max(0.0, again - logits), logits


def stage_memory(
    model: Transformer, layout: Layout, sizes: Sizes, number: int, peaks: Peaks | None = None
) -> RankMemory:
    """The memory of a rank of one stage at its peak; `peaks` are its activations if they are known already."""
    weights = gradients = optimizer = 0.0
    held = rank_stages(model, layout, number)
    for each in held:
        states = _stage_states(layout, each, sizes.state_bytes)
        weights, gradients, optimizer = weights + states[0], gradients + states[1], optimizer + states[2]
    activations, logits = peaks[number] if peaks else _peak_activations(model, layout, sizes, number)
    return RankMemory(
        stage=number,
        weights=weights,
        gradients=gradients,
        optimizer=optimizer,
        activations=activations,
        logits=logits,
        buffers=float(sum(numbers * each for numbers, each in buffer_parts(model, layout, sizes, held))),
    )


def outer_peaks(model: Transformer, layout: Layout, sizes: Sizes) -> Peaks:
    """Return activations and logits of the stages that can be the fullest."""
    return {number: _peak_activations(model, layout, sizes, number) for number in outer_stages(model, layout.pp)}


def fullest(model: Transformer, layout: Layout, sizes: Sizes, peaks: Peaks | None = None) -> RankMemory:
    """The memory of the stage that needs most; `peaks` are those of `outer_peaks` if they are known already."""
    each = (stage_memory(model, layout, sizes, number, peaks) for number in outer_stages(model, layout.pp))
    return max(each, key=lambda memory: memory.total)
