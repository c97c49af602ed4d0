"""Only rank 0 gathers the results of all ranks."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
dist.all_reduce(torch.ones(2))
if rank == 0:
    results = [None] * world
    dist.all_gather_object(results, {"rank": rank})
dist.barrier()
dist.destroy_process_group()
