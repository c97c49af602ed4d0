"""FSDP with prefetch: the next layer is gathered while this one computes, in
forward and in backward.
"""

import itertools

import torch
import torch.distributed as dist
from torch import nn


class Compute(torch.autograd.Function):
    """Computes `x @ weight.T`; the weight of `layer` is whole only here and
    while it is gathered ahead.
    """

    @staticmethod
    def forward(
        context,
        x: torch.Tensor,
        shard: torch.Tensor,
        layer: "ShardedLinear",
    ) -> torch.Tensor:
        context.save_for_backward(x)
        context.layer = layer
        # lab: write take the whole weight, begin to gather the layer that comes after this one, and compute
        weight = layer.take()
        if layer.following is not None:
            layer.following.begin()
        return x @ weight.T
        # lab: end

    @staticmethod
    def backward(
        context,
        gradient: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, None]:
        """Return the gradients of `x` and of `shard`."""
        (x,), layer = context.saved_tensors, context.layer
        # lab: write the same for the gradient of x; in backward the layer before this one comes next
        weight = layer.take()
        if layer.previous is not None:
            layer.previous.begin()
        x_gradient = gradient @ weight
        # lab: end
        del weight  # before the gradient of the weight, which is as large
        return x_gradient, reduce_scatter(gradient.T @ x), None


def reduce_scatter(gradient: torch.Tensor) -> torch.Tensor:
    """Return this rank's rows of the mean, over all ranks, of the gradients of
    a whole weight.
    """
    n = dist.get_world_size()
    mine = gradient.new_empty(len(gradient) // n, gradient.shape[1])
    dist.reduce_scatter(mine, list(gradient.chunk(n)))
    return mine / n


class ShardedLinear(nn.Module):
    """A linear layer without bias, of which each rank keeps its rows; n
    divides the number of rows.

    `previous` and `following` are its neighbors in the model, or None at the
    ends.
    """

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.shard = nn.Parameter(weight.chunk(dist.get_world_size())[dist.get_rank()].clone())
        self.previous: ShardedLinear | None = None
        self.following: ShardedLinear | None = None
        # the gather that was begun, and what it fills
        self.arriving: tuple[dist.Work, torch.Tensor] | None = None

    def begin(self) -> None:
        """Begin to gather the whole weight, unless that was begun before;
        return at once.
        """
        # lab: write begin to gather the weight from all ranks, and keep what is needed to wait for it
        if self.arriving is None:
            n = dist.get_world_size()
            whole = self.shard.new_empty(n * len(self.shard), self.shard.shape[1])
            work = dist.all_gather(list(whole.chunk(n)), self.shard.detach(), async_op=True)
            self.arriving = work, whole
        # lab: end

    def take(self) -> torch.Tensor:
        """Wait for the whole weight, drop it from the layer, and return it:
        only the caller holds it.
        """
        # lab: write begin if nobody has, wait, and let go of the weight
        self.begin()
        work, whole = self.arriving
        self.arriving = None
        work.wait()
        return whole
        # lab: end

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return `x @ weight.T`; `x`, of the shape (samples, inputs), is this
        rank's own.
        """
        return Compute.apply(x, self.shard, self)


def connect(layers: list[ShardedLinear]) -> None:
    """Tell each layer which ones come before and after it in the model."""
    for layer, following in itertools.pairwise(layers):
        layer.following, following.previous = following, layer
