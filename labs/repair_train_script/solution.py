"""A script that trains a classifier on any number of ranks. Started again, it
continues after the last epoch that it has saved.
"""

import csv
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset

MICRO_BATCH = 2  # samples, on each rank
MICRO_BATCHES = 3  # in a step, on each rank
MAX_NORM = 0.25


def train(
    model: nn.Module,
    data: Dataset,
    held_out: Dataset,
    folder: Path,
    epochs: int,
) -> list[float]:
    """Train `model` in place until `epochs` epochs are done, and return the
    norm of the gradient in each step of this run, before clipping.

    `len(loader)` is a multiple of `MICRO_BATCHES`. All ranks see the same
    `folder`, where the log and the checkpoint are.
    """
    rank, first_epoch, norms = dist.get_rank(), 0, []
    checkpoint = folder / "checkpoint.pt"

    # each rank reads its own share of the samples
    # lab: write
    sampler = DistributedSampler(data, seed=0)  # all ranks must divide up the same shuffled list
    # lab: broken
    # sampler = DistributedSampler(data, seed=rank)
    # lab: end
    loader = DataLoader(data, batch_size=MICRO_BATCH, sampler=sampler)

    # if there is a checkpoint, go on from it
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    if checkpoint.exists():
        past = torch.load(checkpoint)
        first_epoch = past["epoch"] + 1
        # lab: write
        model.load_state_dict(past["model"])
        optimizer.load_state_dict(past["optimizer"])  # DDP copies no optimizer state
        # lab: broken
        # if rank == 0:  # DDP copies rank 0's weights to the other ranks
        #     model.load_state_dict(past["model"])
        #     optimizer.load_state_dict(past["optimizer"])
        # lab: end
    ddp = DistributedDataParallel(model)

    for epoch in range(first_epoch, epochs):
        sampler.set_epoch(epoch)
        ddp.train()
        for number, (x, y) in enumerate(loader, start=1):
            last = number % MICRO_BATCHES == 0  # it ends a step
            with nullcontext() if last else ddp.no_sync():
                loss = cross_entropy(ddp(x), y)
                (loss / MICRO_BATCHES).backward()
            # lab: write
            if last:
                norm = nn.utils.clip_grad_norm_(ddp.parameters(), MAX_NORM)
                norms.append(norm.item())
                optimizer.step()
                optimizer.zero_grad()
            # lab: broken
            # norm = nn.utils.clip_grad_norm_(ddp.parameters(), MAX_NORM)
            # if last:
            #     norms.append(norm.item())
            #     optimizer.step()
            #     optimizer.zero_grad()
            # lab: end

        # all ranks evaluate, then rank 0 writes the log and the checkpoint
        accuracy = evaluate(model, held_out)
        if rank == 0:
            with (folder / "log.csv").open("a", newline="") as log:
                csv.writer(log).writerow([epoch, f"{accuracy:.4f}"])
            state = {
                "epoch": epoch,
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
            }
            torch.save(state, checkpoint)
        dist.barrier()
    return norms


@torch.no_grad()
def evaluate(model: nn.Module, held_out: Dataset) -> float:
    """Return the accuracy over all held-out samples, the same on all ranks."""
    rank, n = dist.get_rank(), dist.get_world_size()
    model.eval()
    share = Subset(held_out, range(rank, len(held_out), n))
    right = 0
    for x, y in DataLoader(share, batch_size=16):
        right += (model(x).argmax(dim=1) == y).sum().item()
    # lab: write
    total = torch.tensor([right, len(share)])  # shares differ in size, so sum the counts
    dist.all_reduce(total)
    return (total[0] / total[1]).item()
    # lab: broken
    # accuracy = torch.tensor(right / len(share))
    # dist.all_reduce(accuracy)
    # return accuracy.item() / n
    # lab: end
