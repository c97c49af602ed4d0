"""FSDP by hand: a layer is whole only while it computes; between uses each
rank keeps its rows of the weight.
"""

import torch
import torch.distributed as dist
from torch import nn


def gather(shard: torch.Tensor) -> torch.Tensor:
    """Return the whole weight, whose rows are those of all ranks, in the order
    of the ranks.
    """
    # lab: write collect the rows of all ranks in one tensor
    n = dist.get_world_size()
    whole = shard.new_empty(n * len(shard), shard.shape[1])
    dist.all_gather(list(whole.chunk(n)), shard)
    return whole
    # lab: end


def reduce_scatter(gradient: torch.Tensor) -> torch.Tensor:
    """Return this rank's rows of the mean, over all ranks, of the gradients of
    the whole weight.
    """
    # lab: write sum the gradients of all ranks, but receive this rank's rows only, and make the sum a mean
    n = dist.get_world_size()
    mine = gradient.new_empty(len(gradient) // n, gradient.shape[1])
    dist.reduce_scatter(mine, list(gradient.chunk(n)))
    return mine / n
    # lab: end


class Compute(torch.autograd.Function):
    """Computes `x @ weight.T`; the weight is whole inside `forward` and inside
    `backward`, and not in between.
    """

    @staticmethod
    def forward(context, x: torch.Tensor, shard: torch.Tensor) -> torch.Tensor:
        # lab: write compute with the whole weight; save for backward what is small
        context.save_for_backward(x, shard)
        return x @ gather(shard).T
        # lab: end

    @staticmethod
    def backward(
        context,
        gradient: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the gradients of `x` and of `shard`; autograd adds the second
        to `shard.grad`.
        """
        x, shard = context.saved_tensors
        # lab: write the gradient of x, and this rank's rows of the mean gradient of the weight
        return gradient @ gather(shard), reduce_scatter(gradient.T @ x)
        # lab: end


class ShardedLinear(nn.Module):
    """A linear layer without bias, of which each rank keeps its rows; n
    divides the number of rows.
    """

    def __init__(self, weight: torch.Tensor) -> None:
        """Take this rank's rows of `weight`, which has the shape (outputs,
        inputs) and is the same on all ranks.
        """
        super().__init__()
        rows = weight.chunk(dist.get_world_size())[dist.get_rank()]
        # lab: write keep these rows, and nothing else of the weight
        self.shard = nn.Parameter(rows.clone())  # a view would keep the whole weight alive
        # lab: end

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return `x @ weight.T`; `x`, of the shape (samples, inputs), is this
        rank's own.
        """
        return Compute.apply(x, self.shard)
