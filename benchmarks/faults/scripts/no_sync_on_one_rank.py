"""One rank counts its micro-batches otherwise, and does not synchronize where the others do."""

import contextlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(4, 1))
for micro in range(8):
    is_last = (micro + (rank == 1 and micro == 7)) % 4 == 3
    with contextlib.nullcontext() if is_last else model.no_sync():
        model(torch.full((2, 4), rank + 1.0)).mean().backward()
dist.barrier()
dist.destroy_process_group()
