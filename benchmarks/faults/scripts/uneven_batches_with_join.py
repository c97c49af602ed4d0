"""Rank 0 has a batch less than the others, inside Join."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(4, 1))
with model.join():
    for _ in range(7 - (rank == 0)):
        model(torch.full((2, 4), rank + 1.0)).mean().backward()
dist.barrier()
dist.destroy_process_group()
