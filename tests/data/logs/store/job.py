import os, signal, sys, time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=6))
rank = dist.get_rank()
x = torch.ones(4)
store = dist.distributed_c10d._get_default_store()
if rank == 0:
    store.set("vocabulary", "ready")
else:
    store.wait(["vocabulary-size"], timedelta(seconds=3))
dist.barrier()
