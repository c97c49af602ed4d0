

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.Linear(8, 8)
fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
model(torch.ones(2, 8)).mean().backward()
if rank == 0:
    whole = {name: value.full_tensor() for name, value in model.state_dict().items()}
    print("saved", sorted(whole))
dist.barrier()
dist.destroy_process_group()
