"""Rank 0 comes to the same all-reduces through other lines, with other numbers but equal shapes."""

import torch
import torch.distributed as dist


def log(x):
    print("mean", x.mean().item())
    dist.all_reduce(x)


dist.init_process_group("gloo")
rank = dist.get_rank()
for step in range(4):
    x = torch.full((4,), float(rank + step))
    if rank == 0:
        log(x)
    else:
        dist.all_reduce(x)
    if rank == 0 and step == 3:
        torch.save(x, "mean.pt")
    dist.barrier()
dist.destroy_process_group()
