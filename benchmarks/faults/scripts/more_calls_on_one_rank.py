"""Rank 0 has one parameter more, and all-reduces its gradient, too."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
names = ["weight", "bias"] + (["scale"] if rank == 0 else [])
grads = {name: torch.ones(16) for name in names}
for name in names:
    dist.all_reduce(grads[name])
print("averaged", len(names))
dist.destroy_process_group()
