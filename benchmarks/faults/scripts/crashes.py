"""A rank reads memory that is not its own."""

import ctypes

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
for step in range(3):
    dist.all_reduce(torch.ones(4))
    if rank == 1 and step == 1:
        ctypes.string_at(0)
dist.destroy_process_group()
