"""Rank 0 takes the world where the others take a group of all ranks."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
everyone = dist.new_group([0, 1, 2])
x = torch.ones(4)
for step in range(5):
    dist.all_reduce(x, group=everyone)
    group = None if rank == 0 and step == 3 else everyone
    dist.all_reduce(x, group=group)
dist.destroy_process_group()
