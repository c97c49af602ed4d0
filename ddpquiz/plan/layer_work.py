"""What the forward of a layer makes a GPU do: FLOP, and the bytes that kernels move which no matrix product hides."""

from dataclasses import dataclass
from functools import cache

from ddpquiz.plan.activations import NUMBER, Split
from ddpquiz.plan.model import Transformer, attention_flops, inner_size, layer_matmul_flops

_MASK = 1  # bytes of a dropped number's mark


@dataclass(frozen=True, slots=True)
class LayerWork:
    """The forward of a layer for a micro-batch on one rank: FLOP and bytes, those of attention's scores apart.

    `again` is the part of `matrices` that selective-op repeats in backward.
    """

    matrices: float
    attention: float
    moved: float
    scores: float
    again: float


@cache
def whole_moves(model: Transformer, *, moe: bool) -> float:
    """The bytes that a token moves where only sequence parallelism splits it: 22 h in a GPT layer with dropout.

    Two norms read and write h numbers. Two sums read two tensors and write one, with dropout also a mask. Latent
    vectors have norms too. Tokens are copied for their experts, and their results are copied back.
    """
    h = model.hidden
    count = 2 * 2 * NUMBER * h + 2 * 3 * NUMBER * h + (2 * _MASK * h if model.dropout else 0)
    if latent := model.latent:
        count += 2 * NUMBER * (latent.query_rank + latent.key_rank)
    if moe and (experts := model.experts):
        count += 2 * 2 * NUMBER * h * experts.active
    return count


@cache
def split_moves(model: Transformer, *, moe: bool) -> float:
    """The bytes that a token moves where tensor parallelism splits it: 24 h in a GPT layer.

    The activation function reads its input, with a gate two of them, and writes its output. Attention reads queries,
    keys and values, and writes its result, whose heads are small enough that their products take as long as that.
    """
    q, v = model.query_size, model.value_size
    attention = model.heads * q + model.kv_heads * (q + v) + model.heads * v
    inside = inner_size(model, moe=moe)
    return NUMBER * (attention + (3 if model.gated else 2) * inside)


@cache
def score_moves(model: Transformer, sequence: int) -> float:
    """The bytes that a token's scores move without FlashAttention: 13 a s with dropout, 8 a s without.

    Scores are written, softmax reads and writes them, dropout does so too and writes a mask, and values meet them.
    """
    return model.heads * sequence * (6 * NUMBER + _MASK if model.dropout else 4 * NUMBER)


@cache
def repeated_flops(model: Transformer, *, moe: bool) -> int:
    """The FLOP of a token's products that selective-op repeats: of keys, of attention's result, of a gate."""
    inside = inner_size(model, moe=moe)
    wide = model.kv_heads * model.query_size + model.heads * model.value_size + (inside if model.gated else 0)
    return 2 * model.hidden * wide


def layer_work(model: Transformer, tokens: float, split: Split, *, moe: bool, attended: tuple[int, bool]) -> LayerWork:
    """The work of a layer for `tokens` of a rank.

    `attended` is the length of a sequence, and whether FlashAttention keeps its scores on the chip.
    """
    sequence, flash = attended
    share = tokens / split.tp
    whole = tokens * whole_moves(model, moe=moe) / (split.tp if split.sequence_parallel else 1)
    return LayerWork(
        matrices=share * layer_matmul_flops(model, moe=moe),
        attention=share * attention_flops(model, sequence, causal=False),
        moved=whole + share * split_moves(model, moe=moe),
        scores=0.0 if flash else share * score_moves(model, sequence),
        again=share * repeated_flops(model, moe=moe),
    )
