"""All ranks gather, broadcast and scatter objects of different lengths."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
dist.all_reduce(torch.ones(2))
results = [None] * world
dist.all_gather_object(results, {"rank": rank, "text": "x" * 100 * rank})
settings = ["adam", 0.1] if rank == 0 else [None, None]
dist.broadcast_object_list(settings, src=0)
mine = [None]
dist.scatter_object_list(mine, ["part-0", "part-1", "part-2"] if rank == 0 else None, src=0)
dist.destroy_process_group()
