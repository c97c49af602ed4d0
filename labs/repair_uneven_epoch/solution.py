"""One epoch of data-parallel training on ranks that have different numbers of
batches.
"""

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def train_epoch(
    model: nn.Module,
    batches: list[tuple[torch.Tensor, torch.Tensor]],
    rate: float,
) -> int:
    """Train `model` in place on this rank's batches, together with all other
    ranks; return the batches used here.

    Each batch has inputs and answers. A step is a step of SGD on the mean
    squared error, whose gradient is summed over the ranks that still have a
    batch and divided by the number of all ranks. Ranks may have different
    numbers of batches: a rank that has no more takes part in the
    communication, but adds nothing.
    """
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    used = 0
    # lab: write
    with ddp.join():
        for inputs, answers in batches:
            optimizer.zero_grad()
            nn.functional.mse_loss(ddp(inputs), answers).backward()
            optimizer.step()
            used += 1
    # lab: broken
    # for inputs, answers in batches:
    #     optimizer.zero_grad()
    #     nn.functional.mse_loss(ddp(inputs), answers).backward()
    #     optimizer.step()
    #     used += 1
    # lab: end
    return used
