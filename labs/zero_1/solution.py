"""ZeRO stage 1: every rank keeps the optimizer state of its own part of the parameters only."""

import torch
import torch.distributed as dist
from torch import nn


class ZeroAdam:
    """AdamW over all ranks. Parameters and their gradients are the same on all ranks; each rank updates one part.

    All numbers of all parameters form one flat tensor, padded with zeros to a multiple of the world size. Rank `r` has
    the `r`-th of `n` equal parts. `optimizer` is torch's AdamW over this part alone, so its two moments take 1/n of the
    memory.
    """

    def __init__(self, parameters: list[nn.Parameter], rate: float) -> None:
        self.parameters = parameters
        self.rank, self.n = dist.get_rank(), dist.get_world_size()
        total = sum(parameter.numel() for parameter in parameters)
        self.padding = -total % self.n
        self.part = nn.Parameter(
            self.flat([parameter.detach() for parameter in parameters]).chunk(self.n)[self.rank].clone()
        )
        self.optimizer = torch.optim.AdamW([self.part], lr=rate)

    def flat(self, tensors: list[torch.Tensor]) -> torch.Tensor:
        """Return the numbers of all tensors in one flat tensor, with padding."""
        return torch.cat([*(tensor.flatten() for tensor in tensors), torch.zeros(self.padding)])

    @torch.no_grad()
    def step(self) -> None:
        """Update all parameters on all ranks; every parameter has a gradient, the same on all ranks."""
        # lab: write update this rank's part, and give every rank the updated parts of all others
        self.part.grad = self.flat([parameter.grad for parameter in self.parameters]).chunk(self.n)[self.rank].clone()
        self.optimizer.step()
        self.part.grad = None
        updated = torch.empty(self.n * self.part.numel())
        dist.all_gather(list(updated.chunk(self.n)), self.part.detach())
        at = 0
        for parameter in self.parameters:
            parameter.copy_(updated[at : at + parameter.numel()].view_as(parameter))
            at += parameter.numel()
        # lab: end
