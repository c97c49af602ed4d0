import os, signal, sys, time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=6))
rank = dist.get_rank()
x = torch.ones(4)
import ctypes
import faulthandler

faulthandler.enable()
dist.all_reduce(x)
if rank == 1:
    ctypes.string_at(0)
dist.all_reduce(x)
dist.destroy_process_group()
