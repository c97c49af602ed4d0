import signal
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

signal.signal(signal.SIGTERM, lambda *_: print("got SIGTERM, stopping after this step", flush=True))
dist.init_process_group("gloo")
rank = dist.get_rank()

loader = DataLoader(torch.ones(4000, 4), batch_size=4, num_workers=1)
for batch in loader:
    time.sleep(0.05)
    dist.all_reduce(batch)
dist.destroy_process_group()
