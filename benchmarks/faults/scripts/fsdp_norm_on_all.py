"""All ranks compute the norm of sharded gradients, and rank 0 prints it."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.Linear(9, 9)
fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
for step in range(3):
    model(torch.full((2, 9), rank + 1.0)).mean().backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).full_tensor().item()
    if rank == 0:
        print("norm", norm)
dist.destroy_process_group()
