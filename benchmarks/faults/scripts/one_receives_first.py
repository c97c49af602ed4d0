"""One rank sends first, the other one receives first."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
other = 1 - rank
mine, theirs = torch.full((3,), float(rank)), torch.zeros(3)
dist.barrier()
for step in range(4):
    if rank == 0:
        dist.send(mine, dst=other)
        dist.recv(theirs, src=other)
    else:
        dist.recv(theirs, src=other)
        dist.send(mine, dst=other)
dist.destroy_process_group()
