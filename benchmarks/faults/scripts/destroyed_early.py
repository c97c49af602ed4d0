"""Rank 0 destroys its groups an epoch before the others, and goes on by itself."""

import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
for epoch in range(4):
    if rank == 0 and epoch == 3:
        dist.destroy_process_group()
        time.sleep(3)
        break
    dist.all_reduce(torch.ones(4))
