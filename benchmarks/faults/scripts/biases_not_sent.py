"""Only matrices are sent to the other ranks before training, and no biases."""

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
for parameter in model.parameters():
    if parameter.dim() > 1:
        dist.broadcast(parameter.data, src=0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def average_gradients(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
        parameter.grad.div_(world)


for step in range(10):
    optimizer.zero_grad()
    model(torch.randn(4, 4)).pow(2).mean().backward()
    average_gradients(model)
    optimizer.step()
dist.destroy_process_group()
