"""Bytes that the forward of a layer stores for its backward, after Korthikanti et al. 2022 (arXiv 2205.05198).

The paper counts a GPT layer with dropout in 16 bits. Here each stored tensor is a term of its own, so that gated MLPs,
grouped queries, latent attention and experts follow from the same rule; for GPT the sum is the paper's equation.
"""

from enum import StrEnum
from functools import cache
from typing import NamedTuple

from ddpquiz.plan.model import Transformer, inner_size

NUMBER = 2  # bytes of an activation in bf16, and of a weight as it travels


class Split(NamedTuple):
    """Over how many ranks a layer is split, and whether its norms and dropout are too."""

    tp: int = 1
    sequence_parallel: bool = False


@cache
def _split_numbers(model: Transformer, *, moe: bool) -> float:
    """The numbers of a token that tensor parallelism splits: 12 h in a GPT layer (24 h bytes).

    Queries, keys, values and what the output projection reads; what the MLP stores between its matrices: GeLU's input
    and output, or with a gate the two inputs of SwiGLU and its output.
    """
    q, v = model.query_size, model.value_size
    attention = model.heads * q + model.kv_heads * (q + v) + model.heads * v
    return attention + (3 if model.gated else 2) * inner_size(model, moe=moe)


@cache
def _whole_bytes(model: Transformer, *, moe: bool) -> float:
    """The bytes of a token that only sequence parallelism splits: 10 h in a GPT layer with dropout.

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


def _score_bytes(model: Transformer, sequence: int) -> float:
    """The bytes of a token's scores: softmax, and with dropout its mask and its output: 5 a s."""
    return model.heads * sequence * (2 * NUMBER + 1 if model.dropout else NUMBER)


@cache
def _token_bytes(model: Transformer, tp: int, *, moe: bool, sequence_parallel: bool) -> float:
    """What a layer stores of one token, scores aside: (10 + 24 / t) h or 34 h / t for GPT (Table 2)."""
    whole = _whole_bytes(model, moe=moe) / (tp if sequence_parallel else 1)
    return whole + NUMBER * _split_numbers(model, moe=moe) / tp


def layer_bytes(model: Transformer, tokens: float, split: Split, *, moe: bool, scores: int) -> float:
    """What a layer stores of a micro-batch on one rank, without recomputation.

    `tokens` are those of the rank. `scores` is the length of a sequence whose scores attention stores, 0 with
    FlashAttention, which stores the logarithm of each softmax's sum in fp32 instead.
    """
    stored = tokens * _token_bytes(model, split.tp, moe=moe, sequence_parallel=split.sequence_parallel)
    of_scores = _score_bytes(model, scores) if scores else 4 * model.heads
    return stored + tokens * of_scores / split.tp


def input_bytes(model: Transformer, tokens: float, split: Split) -> float:
    """What a layer stores with full recomputation, its input: 2 s b h (Table 2)."""
    return NUMBER * tokens * model.hidden / (split.tp if split.sequence_parallel else 1)


def kept_bytes(model: Transformer, tokens: float, split: Split, *, moe: bool) -> float:
    """What a layer stores with PyTorch's selective checkpoint of operators, beside its input.

    It keeps the result of every other matrix product (queries, values, and the first and the last of the MLP) and of
    attention, and computes the others again (torchtitan, activation_checkpoint "selective", option "op").
    """
    inside = inner_size(model, moe=moe)
    parted = model.heads * model.query_size + (model.kv_heads + model.heads) * model.value_size + inside
    whole = model.hidden if model.gated else 0
    return tokens * (NUMBER * (parted / split.tp + whole) + 4 * model.heads / split.tp)


class Loss(StrEnum):
    """How the loss is computed from the logits, which decides how often they are held."""

    EAGER = "eager"  # torch.nn.functional.cross_entropy of logits in fp32
    GATHERED = "gathered"  # the same, each tp rank holds all logits, and the caller keeps them in fp32
    FUSED = "fused"  # under torch.compile, or by a kernel of its own (FlashAttention, Liger)
    IN_PLACE = "in-place"  # Megatron's, which overwrites its copy in fp32
    CHUNKED = "chunked"  # of an eighth of the tokens at a time


# Bytes of a logit at the peak, in backward. Eager: the logits (2), what log_softmax returned (4), its gradient (4),
# and that of its input (4). Gathered: the same, with the logits in fp32 (4), as Transformers up to 4.45 returned them
# (huggingface/transformers, pull request 33902). Eager and split by tp
# (torch.distributed.tensor.parallel.loss_parallel): in place of the last two, a gradient of zeros, the softmax, and
# their sum (12). Fused: the logits and their gradient. In place: the logits (2), and the copy in fp32 that becomes
# softmax and then its gradient (4).
_LOSS_BYTES = {Loss.EAGER: 14.0, Loss.GATHERED: 16.0, Loss.FUSED: 4.0, Loss.IN_PLACE: 6.0, Loss.CHUNKED: 14 / 8}
_SPLIT_EAGER_BYTES = 18.0


def loss_bytes(loss: Loss, tp: int) -> float:
    """The bytes that are held of a logit at the peak."""
    return _SPLIT_EAGER_BYTES if tp > 1 and loss is Loss.EAGER else _LOSS_BYTES[loss]


def logit_bytes(model: Transformer, tokens: float, *, tp: int, loss: Loss) -> float:
    """The copies of the logits, and the inputs of the last norm and the head (section 4.3)."""
    held = model.vocabulary / (1 if loss is Loss.GATHERED else tp)
    return loss_bytes(loss, tp) * tokens * held + 2 * NUMBER * tokens * model.hidden
