"""The result of an asynchronous all-reduce is used after a wait."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
world = dist.get_world_size()
weight = torch.zeros(4096)
for step in range(5):
    gradient = torch.ones(4096)
    work = dist.all_reduce(gradient, async_op=True)
    work.wait()
    weight -= 0.1 * gradient / world
dist.barrier()
dist.destroy_process_group()
