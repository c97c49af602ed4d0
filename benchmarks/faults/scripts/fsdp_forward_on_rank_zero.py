"""Rank 0 calls an FSDP model once more, to log a sample."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 4))
fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
for step in range(3):
    model(torch.ones(2, 8)).mean().backward()
if rank == 0:
    print("sample", model(torch.ones(1, 8)).shape)
dist.barrier()
dist.destroy_process_group()
