"""The first stage sends one micro-batch less than the next one receives."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
x = torch.zeros(4)
for micro in range(4):
    if rank > 0:
        dist.recv(x, src=rank - 1)
    if rank < world - 1 and not (rank == 0 and micro == 3):
        dist.send(x, dst=rank + 1)
dist.destroy_process_group()
