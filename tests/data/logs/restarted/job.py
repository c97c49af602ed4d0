import os, signal, sys, time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=6))
rank = dist.get_rank()
x = torch.ones(4)
dist.all_reduce(x)
if rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    raise RuntimeError("the disk is full")
dist.all_reduce(x)
print("rank", rank, "done", flush=True)
dist.destroy_process_group()
