"""One training step of a pipeline with GPipe's schedule: all micro-batches
forward, then all backward.
"""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def gpipe_step(
    stage: nn.Module,
    inputs: list[torch.Tensor | None],
    targets: list[torch.Tensor | None],
    loss_of: Loss,
    shape: tuple[int, ...],
) -> None:
    """Leave the gradient of the batch's mean loss in the parameters of this
    rank's `stage`.

    The model is a chain of stages; rank `r` has stage `r`. `inputs` and
    `targets` have one entry for each micro-batch, on all ranks, but the
    entries of `inputs` are tensors on the first rank only, those of `targets`
    on the last rank only, and elsewhere they are None. What goes from stage to
    stage has the shape `shape`. `loss_of(output, target)` is the mean loss of
    one micro-batch. All micro-batches have the same size.
    """
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    # what this stage got, one tensor for each micro-batch
    entered: list[torch.Tensor] = []
    # what this stage made of it; on the last rank its part of the loss
    left: list[torch.Tensor] = []

    # lab: write the forwards: receive or take each micro-batch, run the stage, keep both ends, send or take the loss
    for x, target in zip(inputs, targets, strict=True):
        if rank > 0:
            x = torch.empty(shape)
            dist.recv(x, rank - 1)
            x.requires_grad_()
        y = stage(x)
        if rank < last:
            dist.send(y.detach(), rank + 1)
        else:
            y = loss_of(y, target) / len(targets)
        entered.append(x)
        left.append(y)
    # lab: end

    # lab: write the backwards: get the gradient of what left, run backward, send the gradient of what entered
    for x, y in zip(entered, left, strict=True):
        if rank < last:
            gradient = torch.empty(shape)
            dist.recv(gradient, rank + 1)
            y.backward(gradient)
        else:
            y.backward()
        if rank > 0:
            dist.send(x.grad, rank - 1)
    # lab: end
