"""Which samples a rank reads, epoch by epoch, and the noise that it adds to
them.
"""

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, DistributedSampler


def read(
    dataset: Dataset,
    epochs: int,
    batch_size: int,
    seed: int,
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield the batches that this rank reads in all epochs, each with noise of
    its own for every sample.

    Each epoch has an order of its own, and the samples go to different ranks;
    every sample is read once in an epoch, and the same seed always gives the
    same batches. The noise has one number per sample; ranks draw different
    noise, and so do epochs.
    """
    rank = dist.get_rank()
    sampler = DistributedSampler(dataset, shuffle=True, seed=seed)
    loader = DataLoader(dataset, batch_size=batch_size, sampler=sampler)
    # lab: write
    noise = torch.Generator().manual_seed(seed + 1 + rank)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for batch in loader:
            yield batch, torch.randn(len(batch), generator=noise)
    # lab: broken
    # noise = torch.Generator().manual_seed(seed + 1)
    # for epoch in range(epochs):
    #     for batch in loader:
    #         yield batch, torch.randn(len(batch), generator=noise)
    # lab: end
