"""A layer is added to the model after DDP has been built."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh())
model = DistributedDataParallel(net)
net.append(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    model(torch.full((2, 4), rank + 1.0)).mean().backward()
    optimizer.step()
dist.destroy_process_group()
