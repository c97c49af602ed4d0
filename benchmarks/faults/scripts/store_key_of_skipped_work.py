"""Rank 0 sets the key only if it had to prepare the data."""

import os

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

dist.init_process_group("gloo")
rank = dist.get_rank()
store = distributed_c10d._get_default_store()
is_there = os.path.exists(os.sep)
if rank == 0 and not is_there:
    store.set("prepared", "1")
if rank != 0:
    store.wait(["prepared"])
dist.all_reduce(torch.ones(2))
dist.destroy_process_group()
