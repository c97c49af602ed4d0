"""Seconds of one micro-batch on one rank: matrix products at the GPU's efficiency, and what else its memory moves."""

from dataclasses import dataclass

from ddpquiz.planning.activations import Split, layer_bytes, score_bytes
from ddpquiz.planning.hardware import Hardware
from ddpquiz.planning.layout import Layout, Recompute
from ddpquiz.planning.memory import Sizes, rank_tokens
from ddpquiz.planning.model import Transformer, attention_flops, head_flops, layer_matmul_flops
from ddpquiz.planning.stages import rank_stages

MOVES = 2  # a stored byte is written once and read once, in forward and again in backward


@dataclass(frozen=True, slots=True)
class Accelerator:
    """What computes: the GPU, the number format of matrix products, and how attention is done.

    `measured` replaces the efficiency of the hardware file, for instance by one measured on this machine.
    """

    hardware: Hardware
    precision: str = "bf16"
    causal: bool = False
    measured: float | None = None

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


@dataclass(frozen=True, slots=True)
class Compute:
    """Seconds of a stage for one micro-batch. `backward` contains recomputation and `weights`, the weight gradients."""

    forward: float
    backward: float
    weights: float
    attention: float  # the part of forward in which context parallelism can hide its sends


def layer_seconds(model: Transformer, layout: Layout, sizes: Sizes, machine: Accelerator, *, moe: bool) -> Compute:
    """Return the seconds of one layer.

    FLOP / (peak x efficiency) + bytes moved / memory bandwidth. Backward has twice the FLOP of forward. Without
    FlashAttention, attention moves its scores too.
    """
    tokens, tp = rank_tokens(layout, sizes.sequence), layout.tp
    speed, share = machine.efficiency, tokens / tp
    matrices = share * layer_matmul_flops(model, moe=moe) / (machine.peak * speed)
    attention = share * attention_flops(model, sizes.sequence, causal=machine.causal) / (machine.attention_peak * speed)
    split, scores = Split(tp, layout.sequence_parallel), 0 if sizes.flash else sizes.sequence
    stored = layer_bytes(model, tokens, split, moe=moe, scores=scores)
    moved = MOVES * stored / machine.hardware.memory_bandwidth
    forward = matrices + attention + moved
    again = {Recompute.NONE: 0.0, Recompute.FULL: forward}.get(layout.recompute, 0.0)
    if layout.recompute is Recompute.SELECTIVE and not sizes.flash:
        moved_again = MOVES * share * score_bytes(model, sizes.sequence)
        again = attention + moved_again / machine.hardware.memory_bandwidth
    return Compute(forward, 2 * (matrices + attention) + moved + again, matrices, attention)


def stage_seconds(model: Transformer, layout: Layout, sizes: Sizes, machine: Accelerator, number: int) -> Compute:
    """Return the seconds of a stage for one micro-batch; of a rank with two stages, their mean."""
    held = rank_stages(model, layout, number)
    forward = backward = weights = attention = 0.0
    for moe in (False, True):
        layers = sum(each.moe_layers if moe else each.dense_layers for each in held) / len(held)
        if layers:
            one = layer_seconds(model, layout, sizes, machine, moe=moe)
            forward, backward = forward + layers * one.forward, backward + layers * one.backward
            weights, attention = weights + layers * one.weights, attention + layers * one.attention
    if heads := sum(each.head for each in held) / len(held):
        tokens = rank_tokens(layout, sizes.sequence)
        head = heads * tokens * head_flops(model) / layout.tp / (machine.attention_peak * machine.efficiency)
        logits = heads * 4 * tokens * model.vocabulary / layout.tp * MOVES / machine.hardware.memory_bandwidth
        forward, backward, weights = forward + head + logits, backward + 2 * head + logits, weights + head
    return Compute(forward, backward, weights, attention)
