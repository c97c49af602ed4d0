"""The mean loss over all tokens of all ranks, in a program whose gradients are
averaged over the ranks.
"""

import torch
import torch.distributed as dist
from torch import nn

IGNORED = -100  # the label of a place without a token, such as padding


def token_mean_loss(
    logits: torch.Tensor,
    labels: torch.Tensor,
) -> torch.Tensor:
    """Return the loss of this rank, for `backward`.

    `logits` has the shape (sequences, length, vocabulary), `labels` the shape
    (sequences, length). After backward the gradients are averaged over the
    ranks, as DDP does; they must be those of the mean cross-entropy over
    all tokens of all ranks. Places with the label `IGNORED` are not tokens. A
    rank may have none; together the ranks have some.
    """
    # lab: write weight this rank's loss by its share of all tokens, and allow for the mean over ranks that follows
    tokens = (labels != IGNORED).sum()
    dist.all_reduce(tokens)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum")
    return loss * dist.get_world_size() / tokens
    # lab: end
