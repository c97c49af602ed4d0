import os
import signal
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

signal.signal(signal.SIGTERM, lambda *_: print("got SIGTERM, stopping after this step", flush=True))
dist.init_process_group("gloo")
rank = dist.get_rank()

loader = DataLoader(torch.ones(4000, 4), batch_size=4, num_workers=1)
for step, batch in enumerate(loader):
    if step == 4 and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if step == 4:
        time.sleep(6)
    dist.all_reduce(batch)
dist.destroy_process_group()
