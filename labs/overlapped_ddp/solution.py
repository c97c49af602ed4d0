"""Data parallelism that sends each gradient as soon as it is ready, while
backward goes on.
"""

import torch
import torch.distributed as dist
from torch import nn


class OverlappedDDP(nn.Module):
    """Wraps a module, which is the same on all ranks. The all-reduces of its
    gradients begin during `backward`.

    `finish()` is called after `loss.backward()` and before the optimizer's
    step: it returns when every gradient is the mean over all ranks. Frozen
    parameters take no part.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.works: list[dist.Work] = []
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self.begin)

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.module(*args)

    def begin(self, parameter: nn.Parameter) -> None:
        """Called in backward, as soon as the gradient of `parameter` is
        complete.
        """
        # lab: write begin to sum this gradient over all ranks, without waiting for it
        parameter.grad /= dist.get_world_size()
        self.works.append(dist.all_reduce(parameter.grad, async_op=True))
        # lab: end

    def finish(self) -> None:
        """Wait until all gradients are averaged."""
        # lab: write wait for everything that was begun, and be ready for the next step
        for work in self.works:
            work.wait()
        self.works.clear()
        # lab: end
