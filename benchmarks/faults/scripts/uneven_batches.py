"""Rank 0 has a batch less than the others, without Join."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(4, 1))
for _ in range(7 - (rank == 0)):
    loss = model(torch.ones(2, 4)).mean()
    loss.backward()
dist.barrier()
dist.destroy_process_group()
