"""All ranks gather sharded parameters to log their norms."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (world,))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
for layer in model:
    if isinstance(layer, nn.Linear):
        fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
g = torch.Generator().manual_seed(rank)


norms = {}


def log_norms():
    for name, parameter in model.named_parameters():
        norms[name] = parameter.full_tensor().norm().item()


for step in range(6):
    loss = model(torch.randn(4, 8, generator=g)).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 4 == 2:
        log_norms()
dist.destroy_process_group()
