"""Rank 1 leaves after it has destroyed the group; the others go on without it."""

import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
for step in range(5):
    dist.all_reduce(torch.ones(8))
dist.barrier()
dist.destroy_process_group()
if rank != 1:
    time.sleep(2)
