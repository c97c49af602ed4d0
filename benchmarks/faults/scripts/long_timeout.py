"""Rank 0 prepares data for some seconds, and the timeout of the group is longer."""

import time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank = dist.get_rank()
dist.all_reduce(torch.ones(2))
if rank == 0:
    time.sleep(3)
dist.all_reduce(torch.ones(2))
dist.destroy_process_group()
