"""In a ring, one rank receives from the wrong side."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
out, into = torch.ones(4), torch.zeros(4)
source = (rank - 1) % world if rank != 2 else 0
for step in range(2):
    sending = dist.isend(out, dst=(rank + 1) % world)
    dist.recv(into, src=source)
    sending.wait()
dist.destroy_process_group()
