"""One rank raises, and the others wait for it."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
for step in range(4):
    if rank == 2 and step == 2:
        raise ValueError("label 11 is out of range")
    dist.all_reduce(torch.ones(8))
dist.destroy_process_group()
