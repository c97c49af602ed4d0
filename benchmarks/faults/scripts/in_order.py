"""All ranks call the same operations in the same order, on two sides of a condition."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
loss, flag = torch.ones(1), torch.zeros(1)
for step in range(6):
    if rank == 1:
        dist.all_reduce(loss)
        dist.broadcast(flag, src=0)
    else:
        dist.all_reduce(loss)
        dist.broadcast(flag, src=0)
dist.destroy_process_group()
