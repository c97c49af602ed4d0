"""The result of an asynchronous all-reduce is used before anybody waits for it."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
world = dist.get_world_size()
weight = torch.zeros(4096)
for step in range(5):
    gradient = torch.ones(4096)
    dist.all_reduce(gradient, async_op=True)
    weight -= 0.1 * gradient / world
dist.barrier()
print("weight", weight[0].item())
dist.destroy_process_group()
