"""Data-parallel training in which rank 0 measures the accuracy after each
epoch.
"""

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

Batch = tuple[torch.Tensor, torch.Tensor]  # inputs and classes


def train(
    model: nn.Module,
    epochs: list[list[Batch]],
    validation: Batch,
    rank: int,
) -> list[float]:
    """Train `model` in place on this rank's batches of each epoch, with SGD
    and all other ranks.

    After each epoch rank 0 measures what share of the validation batch its
    model classifies correctly, in evaluation mode. Return these shares on rank
    0 and an empty list on all other ranks.
    """
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    shares = []
    for batches in epochs:
        ddp.train()
        for inputs, classes in batches:
            optimizer.zero_grad()
            nn.functional.cross_entropy(ddp(inputs), classes).backward()
            optimizer.step()
        if rank == 0:
            ddp.eval()
            inputs, classes = validation
            with torch.no_grad():
                # lab: write
                scores = model(inputs)  # the module itself: no communication
                # lab: broken
                # scores = ddp(inputs)
                # lab: end
            shares.append((scores.argmax(dim=1) == classes).float().mean().item())
    return shares
