"""A rank is killed as the kernel kills one that is out of memory."""

import os
import signal

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
for step in range(4):
    dist.all_reduce(torch.ones(8))
    if rank == 1 and step == 1:
        os.kill(os.getpid(), signal.SIGKILL)
dist.destroy_process_group()
