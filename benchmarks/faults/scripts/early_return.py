"""Early stopping is decided by each rank for itself."""

import torch
import torch.distributed as dist


def train(rank):
    for epoch in range(5):
        score = torch.tensor([0.5 if rank == 1 and epoch == 3 else 1.0])
        if score < 0.9:
            return epoch
        dist.all_reduce(score)
    return 5


dist.init_process_group("gloo")
print("epochs", train(dist.get_rank()))
