"""Bytes that the forward of a layer stores for its backward, after Korthikanti et al. 2022 (arXiv 2205.05198).

The paper counts a GPT layer with dropout in 16 bits. Here each stored tensor is a term of its own, so that gated MLPs,
grouped queries, latent attention and experts follow from the same rule; for GPT the sum is the paper's equation.
"""

from functools import cache
from typing import NamedTuple

from ddpquiz.planning.layout import Recompute
from ddpquiz.planning.model import Transformer

NUMBER = 2  # bytes of an activation in bf16


class Split(NamedTuple):
    """Over how many ranks a layer is split, and whether its norms and dropout are too."""

    tp: int = 1
    sequence_parallel: bool = False


@cache
def split_numbers(model: Transformer, *, moe: bool) -> float:
    """Return the numbers of a token that tensor parallelism splits: 12 h in a GPT layer (24 h bytes).

    Queries, keys, values and what the output projection reads; what the MLP stores between its matrices: GeLU's input
    and output, or with a gate the two inputs of SwiGLU and its output.
    """
    q, v = model.query_size, model.value_size
    attention = model.heads * q + model.kv_heads * (q + v) + model.heads * v
    inside = 3 if model.gated else 2
    if not (moe and (experts := model.experts)):
        return attention + inside * model.ffn
    return attention + inside * experts.ffn * (experts.active + experts.shared)


@cache
def whole_bytes(model: Transformer, *, moe: bool) -> float:
    """Return the bytes of a token that only sequence parallelism splits: 10 h in a GPT layer with dropout.

    The inputs of both norms, of attention and of the MLP, a byte of each of the two dropout masks; the latent vectors
    before and after their norms; tokens as they arrive at experts, and the outputs that their weights multiply.
    """
    h = model.hidden
    count = 4 * NUMBER * h + (2 * h if model.dropout else 0)
    if latent := model.latent:
        count += 2 * NUMBER * (latent.query_rank + latent.key_rank)
    if moe and (experts := model.experts):
        count += 2 * NUMBER * h * experts.active
    return count


def score_bytes(model: Transformer, sequence: int) -> float:
    """Return the bytes of a token's scores: softmax, and with dropout its mask and its output: 5 a s."""
    return model.heads * sequence * (2 * NUMBER + 1 if model.dropout else NUMBER)


@cache
def token_bytes(model: Transformer, tp: int, *, moe: bool, sequence_parallel: bool) -> float:
    """Return what a layer stores of one token, scores aside: (10 + 24 / t) h or 34 h / t for GPT (Table 2)."""
    whole = whole_bytes(model, moe=moe) / (tp if sequence_parallel else 1)
    return whole + NUMBER * split_numbers(model, moe=moe) / tp


def layer_bytes(model: Transformer, tokens: float, split: Split, *, moe: bool, scores: int) -> float:
    """Return what a layer stores of a micro-batch on one rank, without recomputation.

    `tokens` are those of the rank. `scores` is the length of a sequence whose scores attention stores, 0 with
    FlashAttention, which stores the logarithm of each softmax's sum in fp32 instead.
    """
    stored = tokens * token_bytes(model, split.tp, moe=moe, sequence_parallel=split.sequence_parallel)
    of_scores = score_bytes(model, scores) if scores else 4 * model.heads
    return stored + tokens * of_scores / split.tp


def input_bytes(model: Transformer, tokens: float, split: Split) -> float:
    """Return what a layer stores with full recomputation, its input: 2 s b h (Table 2)."""
    return NUMBER * tokens * model.hidden / (split.tp if split.sequence_parallel else 1)


def stores_scores(recompute: Recompute, *, flash: bool) -> bool:
    """Return True if attention's scores are stored."""
    return recompute is Recompute.NONE and not flash


def logit_bytes(model: Transformer, tokens: float, *, tp: int) -> float:
    """Return the logits in fp32, split by tp, and the inputs of the last norm and the head (section 4.3)."""
    return 4 * tokens * model.vocabulary / tp + 2 * NUMBER * tokens * model.hidden
