"""Training that reports, on rank 0, the mean loss over all ranks."""

import torch
import torch.distributed as dist


def train(
    weight: torch.Tensor,
    batches: list[torch.Tensor],
    every: int,
) -> list[float]:
    """Move `weight` toward the mean of all samples, and return the losses that
    rank 0 reports.

    Each rank has its own batches, the same number on all ranks. The loss is
    the mean squared distance to the samples of a batch. In each step whose
    number is divisible by `every`, from step 0 on, rank 0 reports the mean
    loss over all ranks before the step; all other ranks return an empty list.
    """
    rank, n = dist.get_rank(), dist.get_world_size()
    reported = []
    for step, batch in enumerate(batches):
        loss = ((weight - batch) ** 2).mean()
        # lab: write
        if step % every == 0:
            mean = loss.clone()
            dist.all_reduce(mean)  # all ranks make this call; only rank 0 uses what it gives
            if rank == 0:
                reported.append(mean.item() / n)
        # lab: broken
        # if rank == 0 and step % every == 0:
        #     mean = loss.clone()
        #     dist.all_reduce(mean)
        #     reported.append(mean.item() / n)
        # lab: end
        gradient = 2 * (weight - batch).mean(dim=0)
        dist.all_reduce(gradient)
        weight -= 0.1 * gradient / n
    return reported
