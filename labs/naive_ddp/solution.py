"""Data parallelism in its plainest form: the same weights everywhere, and the
mean of all gradients after backward.
"""

import torch
import torch.distributed as dist
from torch import nn


class NaiveDDP(nn.Module):
    """Wraps a module. After `loss.backward()`, `synchronize()` makes every
    rank hold the same gradients.

    Some parameters of the module may be frozen (`requires_grad` is False), and
    some may be tied: one tensor under two names. The wrapped module stays the
    same object.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        # lab: write copy rank 0's parameters and buffers to all ranks, in place
        with torch.no_grad():
            for tensor in (*module.parameters(), *module.buffers()):
                dist.broadcast(tensor, src=0)
        # lab: end

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.module(*args)

    def synchronize(self) -> None:
        """Replace each gradient by its mean over all ranks."""
        # lab: write all-reduce the gradient of every parameter that has one, and make the sum a mean
        for parameter in self.module.parameters():  # a tied parameter comes once
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()
        # lab: end
