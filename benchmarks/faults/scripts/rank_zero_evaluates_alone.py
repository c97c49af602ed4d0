"""Rank 0 evaluates for a while by itself, without a collective."""

import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
for step in range(6):
    dist.all_reduce(torch.ones(32))
    if step == 4 and rank == 0:
        time.sleep(2)
        print("accuracy", 0.5)
dist.destroy_process_group()
