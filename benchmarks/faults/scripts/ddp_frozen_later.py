"""A layer is frozen after DDP has been built, and DDP waits for its gradient."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
model = DistributedDataParallel(net)
for step in range(5):
    if step == 2:
        net[0].requires_grad_(False)
    loss = model(torch.ones(2, 4)).mean()
    loss.backward()
dist.destroy_process_group()
