"""torch.distributed.checkpoint.save is called on rank 0 only."""

import shutil

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def save(model, step):
    state = {"model": model.module.state_dict(), "step": step}
    dcp.save(state, checkpoint_id=f"dcp-{step}")


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
g = torch.Generator().manual_seed(rank)
for step in range(6):
    optimizer.zero_grad()
    model(torch.randn(4, 8, generator=g)).pow(2).mean().backward()
    optimizer.step()
    if step == 3 and rank == 0:
        shutil.rmtree(f"dcp-{step}", ignore_errors=True)
        save(model, step)
dist.destroy_process_group()
