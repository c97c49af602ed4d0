"""ZeRO stage 2: each rank keeps the gradients and the optimizer state of its
own part of every parameter.
"""

import torch
import torch.distributed as dist
from torch import nn

MOMENTUM = 0.9


class ZeroTwo:
    """SGD with momentum over all ranks. The parameters are the same on all
    ranks, the gradients are not.

    Every parameter, made flat and padded with zeros to a multiple of the world
    size, is cut into `n` equal parts. Rank `r` keeps the mean gradient and the
    momentum of the `r`-th part.
    """

    def __init__(self, parameters: list[nn.Parameter], rate: float) -> None:
        self.parameters, self.rate = parameters, rate
        self.rank, self.n = dist.get_rank(), dist.get_world_size()
        # for this rank's part of each parameter
        self.gradients = {parameter: torch.zeros(self.length(parameter)) for parameter in parameters}
        self.momenta = {parameter: torch.zeros(self.length(parameter)) for parameter in parameters}
        for parameter in parameters:
            parameter.register_post_accumulate_grad_hook(self.scatter)

    def length(self, parameter: torch.Tensor) -> int:
        """Return the length of a part, the same on all ranks."""
        return -(-parameter.numel() // self.n)

    def parts(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """Return copies of the `n` parts of a parameter, or of its gradient,
        with padding.
        """
        padding = self.length(tensor) * self.n - tensor.numel()
        return list(torch.cat([tensor.flatten(), torch.zeros(padding)]).chunk(self.n))

    @torch.no_grad()
    def scatter(self, parameter: nn.Parameter) -> None:
        """Keep only this rank's part of the mean; called in backward when
        `parameter.grad` is complete.

        Several backwards may come before a step; their gradients add up.
        """
        # lab: write sum over all ranks, keep the mean of this rank's part, and free the whole gradient
        part = torch.empty(self.length(parameter))
        dist.reduce_scatter(part, self.parts(parameter.grad))
        self.gradients[parameter] += part / self.n
        parameter.grad = None
        # lab: end

    @torch.no_grad()
    def step(self) -> None:
        """Update all parameters on all ranks; set the gradients to zero."""
        for parameter in self.parameters:
            momentum, gradient = self.momenta[parameter], self.gradients[parameter]
            momentum.mul_(MOMENTUM).add_(gradient)
            gradient.zero_()
            # lab: write update this rank's part of the parameter, and give every rank the parts of all ranks
            part = self.parts(parameter)[self.rank] - self.rate * momentum
            updated = torch.empty(self.n * len(part))
            dist.all_gather(list(updated.chunk(self.n)), part)
            parameter.copy_(updated[: parameter.numel()].view_as(parameter))
            # lab: end
