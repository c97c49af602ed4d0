"""A layer is unfrozen before DDP is built."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
net[0].requires_grad_(False)
net[0].requires_grad_(True)
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    model(torch.full((2, 4), rank + 1.0)).mean().backward()
    optimizer.step()
dist.destroy_process_group()
