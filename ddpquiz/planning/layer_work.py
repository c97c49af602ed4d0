"""What a layer makes a GPU do in forward: FLOP, and the bytes that kernels move which no matrix product hides.

A large matrix product computes for longer than its operands travel, so its bytes cost nothing. Norms, dropout, sums,
activation functions and attention's scores compute almost nothing: each such kernel takes as long as its bytes.
"""

from dataclasses import dataclass
from functools import cache

from ddpquiz.planning.activations import NUMBER, Split
from ddpquiz.planning.model import Transformer, attention_flops, layer_matmul_flops

MASK = 1  # bytes of a dropped number's mark


@dataclass(frozen=True, slots=True)
class LayerWork:
    """The forward of a layer for a micro-batch on one rank: FLOP and bytes, those of attention's scores apart."""

    matrices: float
    attention: float
    moved: float
    scores: float


@cache
def whole_moves(model: Transformer, *, moe: bool) -> float:
    """Return the bytes that a token moves where only sequence parallelism splits it: 22 h in a GPT layer with dropout.

    Two norms read and write h numbers. Two sums read two tensors and write one, with dropout also a mask. Latent
    vectors have norms too. Tokens are copied for their experts, and their results are copied back.
    """
    h = model.hidden
    count = 2 * 2 * NUMBER * h + 2 * 3 * NUMBER * h + (2 * MASK * h if model.dropout else 0)
    if latent := model.latent:
        count += 2 * NUMBER * (latent.query_rank + latent.key_rank)
    if moe and (experts := model.experts):
        count += 2 * 2 * NUMBER * h * experts.active
    return count


@cache
def split_moves(model: Transformer, *, moe: bool) -> float:
    """Return the bytes that a token moves where tensor parallelism splits it: 24 h in a GPT layer.

    The activation function reads its input, with a gate two of them, and writes its output. Attention reads queries,
    keys and values, and writes its result, whose heads are small enough that their products take as long as that.
    """
    q, v = model.query_size, model.value_size
    attention = model.heads * q + model.kv_heads * (q + v) + model.heads * v
    experts = model.experts if moe else None
    inside = experts.ffn * (experts.active + experts.shared) if experts else model.ffn
    return NUMBER * (attention + (3 if model.gated else 2) * inside)


@cache
def score_moves(model: Transformer, sequence: int) -> float:
    """Return the bytes that a token's scores move without FlashAttention: 13 a s with dropout, 8 a s without.

    Scores are written, softmax reads and writes them, dropout does so too and writes a mask, and values meet them.
    """
    return model.heads * sequence * (6 * NUMBER + MASK if model.dropout else 4 * NUMBER)


def layer_work(
    model: Transformer, tokens: float, split: Split, *, moe: bool, attended: tuple[int, bool, bool]
) -> LayerWork:
    """Return the work of a layer for `tokens` of a rank.

    `attended` is the length of a sequence, whether FlashAttention keeps its scores on the chip, and whether only the
    half of them that a causal mask leaves is computed.
    """
    sequence, flash, causal = attended
    share = tokens / split.tp
    whole = tokens * whole_moves(model, moe=moe) / (split.tp if split.sequence_parallel else 1)
    return LayerWork(
        matrices=share * layer_matmul_flops(model, moe=moe),
        attention=share * attention_flops(model, sequence, causal=causal),
        moved=whole + share * split_moves(model, moe=moe),
        scores=0.0 if flash else share * score_moves(model, sequence),
    )
