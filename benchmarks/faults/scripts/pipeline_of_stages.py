"""All stages of a pipeline count the same microbatches."""

import torch
import torch.distributed as dist
from torch import nn


class Stage:
    def __init__(self, rank, world, microbatches):
        torch.manual_seed(rank)
        self.rank, self.world, self.microbatches = rank, world, microbatches
        self.layer = nn.Linear(8, 8)
        self.optimizer = torch.optim.SGD(self.layer.parameters(), lr=0.1)

    @property
    def first(self):
        return self.rank == 0

    @property
    def last(self):
        return self.rank == self.world - 1

    def step(self, data):
        inputs, outputs = [], []
        for i in range(self.microbatches):
            if self.first:
                x = data[i]
            else:
                x = torch.empty(4, 8)
                dist.recv(x, self.rank - 1)
                x.requires_grad_()
            y = torch.relu(self.layer(x))
            if not self.last:
                dist.send(y.detach(), self.rank + 1)
            inputs.append(x)
            outputs.append(y)
        for x, y in zip(reversed(inputs), reversed(outputs), strict=True):
            if self.last:
                y.mean().backward()
            else:
                grad = torch.empty_like(y)
                dist.recv(grad, self.rank + 1)
                y.backward(grad)
            if not self.first:
                dist.send(x.grad, self.rank - 1)
        self.optimizer.step()
        self.optimizer.zero_grad()


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
total = 16
stage = Stage(rank, world, total // 4)
for _ in range(3):
    stage.step([torch.randn(4, 8) for _ in range(4)])
dist.barrier()
dist.destroy_process_group()
