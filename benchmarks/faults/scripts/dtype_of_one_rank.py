"""One rank counts in integers of another width."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
for step in range(3):
    seen = torch.tensor([8.0, 1.0, 3.0])
    if rank == 1 and step == 2:
        seen = seen.double()
    dist.all_reduce(seen)
    dist.barrier()
dist.destroy_process_group()
