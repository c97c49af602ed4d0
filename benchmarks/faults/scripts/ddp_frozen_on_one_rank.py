"""One rank loads a setting that freezes a layer, before DDP wraps the model."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
if rank == 2:
    net[0].requires_grad_(False)
model = DistributedDataParallel(net)
model(torch.ones(2, 4)).mean().backward()
dist.destroy_process_group()
