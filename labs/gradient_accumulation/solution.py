"""Gradient accumulation: micro-batches, then one synchronization and step."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

import torch
import torch.distributed as dist
from torch import nn


class AccumulatingDDP(nn.Module):
    """Wraps a module, which is the same on all ranks. Outside `no_sync` its
    gradients are averaged during backward.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.synchronizes = True
        self.works: list[dist.Work] = []
        for parameter in module.parameters():
            parameter.register_post_accumulate_grad_hook(self.ready)

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.module(*args)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """A backward inside this context sends nothing; it only adds to this
        rank's gradients.

        Afterwards everything is as before, even if the block inside raised an
        error or was part of another `no_sync`.
        """
        # lab: write switch `self.synchronizes` off for the block, and put it back whatever happens
        before = self.synchronizes
        self.synchronizes = False
        try:
            yield
        finally:
            self.synchronizes = before
        # lab: end

    def ready(self, parameter: nn.Parameter) -> None:
        """Called in each backward, when the gradient of `parameter` holds
        what this backward added to it.
        """
        # lab: write begin to average this gradient over the ranks, unless in `no_sync`
        if self.synchronizes:
            parameter.grad /= dist.get_world_size()
            self.works.append(dist.all_reduce(parameter.grad, async_op=True))
        # lab: end

    def finish(self) -> None:
        """Wait until all gradients are averaged."""
        for work in self.works:
            work.wait()
        self.works.clear()


def train_step(
    ddp: AccumulatingDDP,
    optimizer: torch.optim.Optimizer,
    micro_batches: Sequence[tuple[torch.Tensor, torch.Tensor]],
) -> None:
    """Take one step on the mean squared error over all micro-batches of all
    ranks.

    A micro-batch is a pair of inputs and answers. All have the same size, and
    all ranks have the same number of them.
    """
    optimizer.zero_grad()
    # lab: write a backward for each micro-batch, only the last of which synchronizes
    for index, (inputs, answers) in enumerate(micro_batches):
        last = index == len(micro_batches) - 1
        with nullcontext() if last else ddp.no_sync():
            loss = nn.functional.mse_loss(ddp(inputs), answers)
            (loss / len(micro_batches)).backward()
    # lab: end
    ddp.finish()
    optimizer.step()
