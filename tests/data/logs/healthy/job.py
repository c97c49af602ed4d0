import os, signal, sys, time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=6))
rank = dist.get_rank()
x = torch.ones(4)
import logging
import warnings

for step in range(20):
    dist.all_reduce(x)
    x /= dist.get_world_size()
    sys.stderr.write(f"\r\x1b[32mtrain\x1b[0m: {5 * step + 5:3d}%|{'#' * step:<20}| {step + 1}/20 [00:0{step % 9}<00:00, 9.1it/s, error=0.{step}]")
    if rank == 0 and step == 10:
        warnings.warn("the learning rate is 0 in the first step")
        try:
            open("/home/user/data/none")
        except FileNotFoundError:
            logging.exception("no cache, reading the data again")
sys.stderr.write("\n")
print(f"rank {rank}: 0 errors, loss 0.1, failed requests 0, Error rate: 0.00", flush=True)
dist.destroy_process_group()
