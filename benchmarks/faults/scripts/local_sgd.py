"""Ranks train by themselves, and average their weights every four steps."""

import torch
import torch.distributed as dist
from torch import nn


class LocalSGD:
    def __init__(self, model, every):
        self.model, self.every, self.steps = model, every, 0

    def step(self):
        self.steps += 1
        if self.steps % self.every == 0:
            for parameter in self.model.parameters():
                dist.all_reduce(parameter.data)
                parameter.data /= dist.get_world_size()


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = nn.Linear(6, 6)
for p in model.parameters():
    dist.broadcast(p.data, 0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
sync = LocalSGD(model, every=4)
for step in range(12):
    optimizer.zero_grad()
    model(torch.randn(3, 6)).pow(2).mean().backward()
    optimizer.step()
    sync.step()
dist.barrier()
dist.destroy_process_group()
