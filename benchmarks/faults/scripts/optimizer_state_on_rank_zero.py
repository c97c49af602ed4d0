"""Only rank 0 loads the state of the optimizer, so replicas drift apart."""

import copy

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
before = torch.optim.Adam(copy.deepcopy(model.module).parameters(), lr=0.1)
before.param_groups[0]["params"][0].grad = torch.ones(1, 4)
before.step()
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
if rank == 0:
    optimizer.load_state_dict(before.state_dict())
for step in range(8):
    optimizer.zero_grad()
    model(torch.full((2, 4), rank + 1.0)).mean().backward()
    optimizer.step()
dist.destroy_process_group()
