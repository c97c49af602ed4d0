"""Sequence parallelism: between the matrices each rank keeps its own tokens
only, and no all-reduce is left.
"""

import torch
import torch.distributed as dist
from torch import nn


def all_gather(x: torch.Tensor) -> torch.Tensor:
    """Return the rows of all ranks in one tensor, in the order of the ranks;
    all bring the same number.
    """
    n = dist.get_world_size()
    whole = x.new_empty(n * len(x), x.shape[1])
    dist.all_gather(list(whole.chunk(n)), x.contiguous())
    return whole


def reduce_scatter(x: torch.Tensor) -> torch.Tensor:
    """Return this rank's rows of the sum of all ranks' `x`; n divides the
    rows.
    """
    n = dist.get_world_size()
    mine = x.new_empty(len(x) // n, x.shape[1])
    dist.reduce_scatter(mine, list(x.contiguous().chunk(n)))
    return mine


class Gather(torch.autograd.Function):
    """Takes this rank's tokens and returns those of all ranks. Each rank then
    computes its own part of what follows.
    """

    @staticmethod
    def forward(context, own: torch.Tensor) -> torch.Tensor:
        return all_gather(own)

    @staticmethod
    def backward(context, gradient: torch.Tensor) -> torch.Tensor:
        """`gradient` is for the tokens of all ranks, through this rank's
        columns only.
        """
        # lab: write the whole gradient of this rank's own tokens
        return reduce_scatter(gradient)
        # lab: end


class Scatter(torch.autograd.Function):
    """Takes a part of the sum for all tokens, and returns the whole sum for
    this rank's own tokens.
    """

    @staticmethod
    def forward(context, partial: torch.Tensor) -> torch.Tensor:
        # lab: write the sum of all parts, for this rank's tokens
        return reduce_scatter(partial)
        # lab: end

    @staticmethod
    def backward(context, gradient: torch.Tensor) -> torch.Tensor:
        """`gradient` is for this rank's own tokens; `partial` had the tokens
        of all ranks.
        """
        # lab: write the gradient of `partial`
        return all_gather(gradient)
        # lab: end


class SequenceParallelMLP(nn.Module):
    """Computes `x + second(relu(first(norm(x))))`, with 1/n of the weights and
    1/n of the tokens on each rank.
    """

    def __init__(
        self,
        norm: nn.LayerNorm,
        first: nn.Linear,
        second: nn.Linear,
    ) -> None:
        super().__init__()
        rank, n = dist.get_rank(), dist.get_world_size()
        self.norm = norm  # the same on all ranks
        self.columns = nn.Parameter(first.weight.detach().chunk(n, dim=0)[rank].clone())
        self.column_bias = nn.Parameter(first.bias.detach().chunk(n)[rank].clone())
        self.rows = nn.Parameter(second.weight.detach().chunk(n, dim=1)[rank].clone())
        # the same on all ranks
        self.bias = nn.Parameter(second.bias.detach().clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the outputs for this rank's own tokens; `x` has the shape
        (own tokens, width).
        """
        # lab: write norm, gather, this rank's columns, relu, its rows, scatter, bias, and the input once more
        hidden = torch.relu(nn.functional.linear(Gather.apply(self.norm(x)), self.columns, self.column_bias))
        return x + Scatter.apply(nn.functional.linear(hidden, self.rows)) + self.bias
        # lab: end

    def synchronize(self) -> None:
        """Complete, after backward, the gradients of the parameters that all
        ranks hold.
        """
        # lab: write sum over all ranks the gradients that each rank has for its own tokens only
        shared = (self.norm.weight, self.norm.bias, self.bias)
        sums = torch.stack([parameter.grad for parameter in shared])  # one message for all of them
        dist.all_reduce(sums)
        for parameter, total in zip(shared, sums, strict=True):
            parameter.grad.copy_(total)
        # lab: end
