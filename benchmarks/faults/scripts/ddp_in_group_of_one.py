"""DDP gets the wrong group of a mesh, in which each rank is alone."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (1, world), mesh_dim_names=("dp", "sp"))
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(8, 8), process_group=mesh.get_group("dp"))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
g = torch.Generator().manual_seed(rank)
for step in range(8):
    optimizer.zero_grad()
    loss = model(torch.randn(4, 8, generator=g)).pow(2).mean()
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean, group=mesh.get_group("sp"))
dist.destroy_process_group()
