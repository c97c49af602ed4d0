"""Some FSDP steps, and all ranks gather the parameters at the end."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 4))
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    model(torch.full((2, 8), rank + 1.0)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
whole = {name: value.full_tensor() for name, value in model.state_dict().items()}
if rank == 0:
    print("saved", len(whole))
dist.destroy_process_group()
