"""Seconds of one micro-batch on one rank: matrix products at the GPU's efficiency, and what else its memory moves."""

from dataclasses import dataclass

from ddpquiz.planning.activations import Split
from ddpquiz.planning.hardware import Hardware
from ddpquiz.planning.layer_work import LayerWork, layer_work
from ddpquiz.planning.layout import Layout, Recompute
from ddpquiz.planning.memory import Sizes, rank_tokens
from ddpquiz.planning.model import Transformer, head_flops
from ddpquiz.planning.stages import rank_stages

# Bytes that backward moves for each of forward. In a GPT layer 34 h / 22 h for norms, dropout and sums, 24 h / 16 h for
# the activation function, and 19 a s / 13 a s for scores: 1.46 to 1.55
BACKWARD_MOVES = 1.5
LOGIT = 4  # bytes of a logit, of which the loss is computed in fp32


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
    """Seconds of a stage for one micro-batch. `backward` contains recomputation and `weights`, the weight gradients.

    `idle` is the part of both in which the GPU waits for kernels to be launched.
    """

    forward: float
    backward: float
    weights: float
    attention: float  # the part of forward in which context parallelism can hide its sends
    idle: float = 0.0


def layer_seconds(layout: Layout, work: LayerWork, machine: Accelerator) -> Compute:
    """Return the seconds of one layer.

    Forward is FLOP / (peak x efficiency) + bytes / (bandwidth x reached), or the time to launch its kernels if that is
    longer. Backward has twice the FLOP, 1.5 times the bytes and twice the kernels, and what recomputation repeats.
    """
    hardware = machine.hardware
    matrices = work.matrices / (machine.peak * machine.efficiency)
    attention = work.attention / (machine.attention_peak * machine.efficiency)
    scores = work.scores / hardware.memory_speed
    moved = work.moved / hardware.memory_speed + scores
    forward, backward = matrices + attention + moved, 2 * (matrices + attention) + BACKWARD_MOVES * moved
    idle, idle_back = max(0.0, hardware.launch - forward), max(0.0, 2 * hardware.launch - backward)
    forward, backward = forward + idle, backward + idle_back
    if layout.recompute is Recompute.FULL:
        backward, idle = backward + forward, 2 * idle
    elif layout.recompute is Recompute.SELECTIVE and scores:
        backward += attention + scores
    return Compute(forward, backward, matrices, attention, idle + idle_back)


def stage_layers(
    model: Transformer, layout: Layout, sizes: Sizes, machine: Accelerator, number: int
) -> list[tuple[float, LayerWork]]:
    """Return how many layers of each kind a rank of a stage has, and the work of one; of two stages, their mean."""
    held, tokens = rank_stages(model, layout, number), rank_tokens(layout, sizes.sequence)
    split, attended = Split(layout.tp, layout.sequence_parallel), (sizes.sequence, sizes.flash, machine.causal)
    counts = {
        moe: sum(each.moe_layers if moe else each.dense_layers for each in held) / len(held) for moe in (False, True)
    }
    return [
        (count, layer_work(model, tokens, split, moe=moe, attended=attended)) for moe, count in counts.items() if count
    ]


def head_seconds(
    model: Transformer, layout: Layout, sizes: Sizes, machine: Accelerator, number: int
) -> tuple[float, float]:
    """Return the seconds of the output head in forward: of its matrix, and of its logits, which are read and written.

    Backward takes twice the one and once the other.
    """
    held = rank_stages(model, layout, number)
    tokens = sum(each.head for each in held) / len(held) * rank_tokens(layout, sizes.sequence)
    matrix = tokens * head_flops(model) / layout.tp / (machine.attention_peak * machine.efficiency)
    return matrix, 2 * LOGIT * tokens * model.vocabulary / layout.tp / machine.hardware.memory_speed


def stage_seconds(model: Transformer, layout: Layout, sizes: Sizes, machine: Accelerator, number: int) -> Compute:
    """Return the seconds of a stage for one micro-batch; of a rank with two stages, their mean."""
    head, logits = head_seconds(model, layout, sizes, machine, number)
    forward, backward, weights, attention, idle = head + logits, 2 * head + logits, head, 0.0, 0.0
    for count, work in stage_layers(model, layout, sizes, machine, number):
        one = layer_seconds(layout, work, machine)
        forward, backward = forward + count * one.forward, backward + count * one.backward
        weights, attention = weights + count * one.weights, attention + count * one.attention
        idle += count * one.idle
    return Compute(forward, backward, weights, attention, idle)
