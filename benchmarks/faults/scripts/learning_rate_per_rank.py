"""Each rank scales the learning rate by its own rank."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * (rank + 1))
for step in range(8):
    optimizer.zero_grad()
    model(torch.full((2, 4), rank + 1.0)).mean().backward()
    optimizer.step()
dist.destroy_process_group()
