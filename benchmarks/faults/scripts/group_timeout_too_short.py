"""Rank 0 prepares data for longer than the timeout of the group."""

import time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=2))
rank = dist.get_rank()
dist.all_reduce(torch.ones(2))
if rank == 0:
    time.sleep(4)
dist.all_reduce(torch.ones(2))
dist.destroy_process_group()
