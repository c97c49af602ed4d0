"""Three micro-batches in no_sync, and the fourth one synchronizes, then the step."""

import contextlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for micro in range(12):
    with contextlib.nullcontext() if micro % 4 == 3 else model.no_sync():
        model(torch.full((2, 4), rank + micro + 1.0)).mean().backward()
    if micro % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
dist.destroy_process_group()
