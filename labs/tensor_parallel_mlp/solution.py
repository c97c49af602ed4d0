"""A two-layer network whose weights are cut over the ranks: columns of the
first layer, rows of the second.
"""

import torch
import torch.distributed as dist
from torch import nn


class Enter(torch.autograd.Function):
    """The same on all ranks in forward; in backward the gradients of all ranks
    are summed.
    """

    @staticmethod
    def forward(context, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient: torch.Tensor) -> torch.Tensor:
        # lab: write each rank has a part of the gradient: return the whole
        # A clone: all_reduce works in place, and autograd may use the tensor that it gave us for something else too.
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient
        # lab: end


class Leave(torch.autograd.Function):
    """Sums what all ranks have computed in forward; in backward the gradient
    is the same on all ranks.
    """

    @staticmethod
    def forward(context, partial: torch.Tensor) -> torch.Tensor:
        # lab: write each rank has a part of every output: return the whole
        # A clone: all_reduce works in place, and the one before it may have saved its output for its backward.
        total = partial.clone()
        dist.all_reduce(total)
        return total
        # lab: end

    @staticmethod
    def backward(context, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


class ParallelMLP(nn.Module):
    """Computes `second(relu(first(x)))` with 1/n of both weights on each rank;
    n divides the hidden width.
    """

    def __init__(self, first: nn.Linear, second: nn.Linear) -> None:
        super().__init__()
        rank, n = dist.get_rank(), dist.get_world_size()
        # A Linear computes x @ weight.T: the columns of the matrix in the
        # formula are the rows of `weight`.
        self.columns = nn.Parameter(first.weight.detach().chunk(n, dim=0)[rank].clone())
        self.column_bias = nn.Parameter(first.bias.detach().chunk(n)[rank].clone())
        self.rows = nn.Parameter(second.weight.detach().chunk(n, dim=1)[rank].clone())
        # the same on all ranks
        self.bias = nn.Parameter(second.bias.detach().clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the outputs for inputs of the shape (samples, width), which
        are the same on all ranks.
        """
        # lab: write this rank's columns of the hidden layer, its part of the outputs, their sum, and the bias once
        hidden = torch.relu(nn.functional.linear(Enter.apply(x), self.columns, self.column_bias))
        return Leave.apply(nn.functional.linear(hidden, self.rows)) + self.bias
        # lab: end
