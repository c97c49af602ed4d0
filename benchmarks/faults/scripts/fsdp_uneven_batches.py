"""With FSDP, rank 1 has a batch less than rank 0."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.Linear(8, 8)
fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4 - rank):
    model(torch.ones(2, 8)).mean().backward()
    optimizer.step()
print("steps", 4 - rank)
