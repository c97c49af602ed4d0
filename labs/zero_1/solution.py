"""ZeRO stage 1: every rank keeps the optimizer state of its own part of the
parameters only.
"""

import torch
import torch.distributed as dist
from torch import nn


class AdamW:
    """AdamW over one tensor, as torch does it, with two numbers of state for
    each of its numbers.
    """

    def __init__(self, values: torch.Tensor, rate: float) -> None:
        self.values, self.rate, self.steps = values, rate, 0
        self.mean, self.square = torch.zeros_like(values), torch.zeros_like(values)

    def step(self, gradient: torch.Tensor) -> None:
        """Update `values` in place."""
        self.steps += 1
        self.mean.mul_(0.9).add_(gradient, alpha=0.1)
        self.square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        mean, square = self.mean / (1 - 0.9**self.steps), self.square / (1 - 0.999**self.steps)
        self.values *= 1 - 0.01 * self.rate  # weight decay
        self.values -= self.rate * mean / (square.sqrt() + 1e-8)


class ZeroAdam:
    """AdamW over all ranks. Parameters and their gradients are the same on all
    ranks; each rank updates one part.

    All numbers of all parameters form one flat tensor, padded with zeros to a
    multiple of the world size. Rank `r` has the `r`-th of `n` equal parts.
    `optimizer` is AdamW over this part alone, so its two moments take 1/n of
    the memory.
    """

    def __init__(self, parameters: list[nn.Parameter], rate: float) -> None:
        self.parameters = parameters
        self.rank, self.n = dist.get_rank(), dist.get_world_size()
        total = sum(parameter.numel() for parameter in parameters)
        self.padding = -total % self.n
        self.part = self.flat([parameter.detach() for parameter in parameters]).chunk(self.n)[self.rank].clone()
        self.optimizer = AdamW(self.part, rate)

    def flat(self, tensors: list[torch.Tensor]) -> torch.Tensor:
        """Return all numbers of the tensors in one flat tensor, padded."""
        return torch.cat([*(tensor.flatten() for tensor in tensors), torch.zeros(self.padding)])

    @torch.no_grad()
    def step(self) -> None:
        """Update all parameters on all ranks; every parameter has a gradient,
        the same on all ranks.
        """
        # lab: write update this rank's part, and give every rank the updated parts of all others
        self.optimizer.step(self.flat([parameter.grad for parameter in self.parameters]).chunk(self.n)[self.rank])
        updated = torch.empty(self.n * len(self.part))
        dist.all_gather(list(updated.chunk(self.n)), self.part)
        at = 0
        for parameter in self.parameters:
            parameter.copy_(updated[at : at + parameter.numel()].view_as(parameter))
            at += parameter.numel()
        # lab: end
