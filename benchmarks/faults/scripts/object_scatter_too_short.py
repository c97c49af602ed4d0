"""Rank 0 scatters fewer objects than there are ranks."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
dist.all_reduce(torch.ones(2))
mine = [None]
shards = ["part-0", "part-1"] if rank == 0 else None
dist.scatter_object_list(mine, shards, src=0)
print("shard", mine[0])
dist.destroy_process_group()
