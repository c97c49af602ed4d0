"""One rank takes a lock twice in the same thread."""

import threading

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
cache = threading.Lock()


def fill():
    with cache:
        return torch.ones(4)


dist.barrier()
if rank == 1:
    with cache:
        fill()
dist.all_reduce(torch.ones(4))
dist.destroy_process_group()
