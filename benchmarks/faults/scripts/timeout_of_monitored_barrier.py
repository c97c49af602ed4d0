"""Rank 1 comes too late to a monitored barrier."""

import time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
dist.all_reduce(torch.ones(2))
if rank == 1:
    time.sleep(5)
dist.monitored_barrier(timeout=timedelta(seconds=2))
dist.destroy_process_group()
