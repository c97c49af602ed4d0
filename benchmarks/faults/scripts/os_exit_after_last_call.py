"""A rank ends with a status that is not 0, after its last collective."""

import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
x = torch.ones(8)
dist.all_reduce(x)
dist.barrier()
if rank == 0:
    os._exit(3)
dist.destroy_process_group()
