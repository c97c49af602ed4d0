"""Data-parallel training whose replicas must stay equal."""

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def train(
    model: nn.Module,
    batches: list[tuple[torch.Tensor, torch.Tensor]],
    rate: float,
) -> nn.Module:
    """Train `model` on this rank's batches of inputs and answers, together
    with all other ranks; return it.

    Every step is a step of SGD on the mean over all ranks of the mean squared
    error.
    """
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for inputs, answers in batches:
        # lab: write
        found = ddp(inputs)  # the forward of the wrapper prepares the all-reduces of the backward
        # lab: broken
        # found = model(inputs)
        # lab: end
        loss = nn.functional.mse_loss(found, answers)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model
