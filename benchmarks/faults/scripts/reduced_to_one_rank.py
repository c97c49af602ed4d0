"""Gradients are reduced to rank 0 only, so that the other rank trains with its own."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    model(torch.full((4, 8), rank + 1.0)).mean().backward()
    for parameter in model.parameters():
        dist.reduce(parameter.grad, dst=0)
        parameter.grad /= world
    optimizer.step()
dist.destroy_process_group()
