"""A layer is unfrozen after DDP has been built, so its gradient is never averaged."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
net[0].requires_grad_(False)
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(8):
    if step == 3:
        net[0].requires_grad_(True)
    optimizer.zero_grad()
    model(torch.full((2, 4), rank + 1.0)).mean().backward()
    optimizer.step()
dist.destroy_process_group()
