"""The loss comes from the module inside DDP, so nothing is averaged."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    optimizer.zero_grad()
    loss = model.module(torch.full((2, 4), rank + 1.0)).mean()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
