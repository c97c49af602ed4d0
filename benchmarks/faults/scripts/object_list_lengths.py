"""The lists of a broadcast of objects have different lengths."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
dist.all_reduce(torch.ones(2))
settings = ["adam", 0.1, {"betas": (0.9, 0.99)}] if rank == 0 else [None, None]
dist.broadcast_object_list(settings, src=0)
print("settings", settings)
dist.barrier()
dist.destroy_process_group()
