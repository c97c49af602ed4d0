"""One training step of a pipeline with the 1F1B schedule: one micro-batch
forward, one backward.
"""

from collections import deque
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Pipeline:
    """The stage of this rank, and the micro-batches that it has in flight:
    forward is done, backward is not.
    """

    def __init__(
        self,
        stage: nn.Module,
        loss_of: Loss,
        shape: tuple[int, ...],
    ) -> None:
        self.stage, self.loss_of, self.shape = stage, loss_of, shape
        self.rank, self.n = dist.get_rank(), dist.get_world_size()
        # what entered and what left the stage
        self.in_flight: deque[tuple[torch.Tensor, torch.Tensor]] = deque()
        self.sending: list[dist.Work] = []

    def forward(
        self,
        x: torch.Tensor | None,
        target: torch.Tensor | None,
        count: int,
    ) -> None:
        """Run the next micro-batch forward: receive it (or take `x`), and send
        the result (or compute the loss).
        """
        if self.rank > 0:
            x = torch.empty(self.shape)
            dist.recv(x, self.rank - 1)
            x.requires_grad_()
        y = self.stage(x)
        if self.rank < self.n - 1:
            self.sending.append(dist.isend(y.detach(), self.rank + 1))
        else:
            y = self.loss_of(y, target) / count
        self.in_flight.append((x, y))

    def backward(self) -> None:
        """Run the oldest micro-batch in flight backward: receive its gradient,
        and send that of what entered.
        """
        x, y = self.in_flight.popleft()
        gradient = None
        if self.rank < self.n - 1:
            gradient = torch.empty(self.shape)
            dist.recv(gradient, self.rank + 1)
        y.backward(gradient)
        if self.rank > 0:
            self.sending.append(dist.isend(x.grad, self.rank - 1))

    def step(
        self,
        inputs: list[torch.Tensor | None],
        targets: list[torch.Tensor | None],
    ) -> None:
        """Leave the gradient of the batch's mean loss in the parameters of the
        stage.

        Both lists have one entry for each micro-batch, on all ranks. The
        entries of `inputs` are tensors on the first rank only, and those of
        `targets` on the last rank only; elsewhere they are None.
        """
        micro_batches, count = zip(inputs, targets, strict=True), len(inputs)
        # lab: write the schedule: forwards to warm up, then one forward and one backward in turn, then backwards
        warm_up = min(self.n - 1 - self.rank, count)
        for _ in range(warm_up):
            self.forward(*next(micro_batches), count)
        for x, target in micro_batches:
            self.forward(x, target, count)
            self.backward()
        for _ in range(warm_up):
            self.backward()
        # lab: end
        for work in self.sending:
            work.wait()
        self.sending.clear()
