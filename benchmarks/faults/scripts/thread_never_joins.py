"""One rank waits for the end of a thread that waits for an event that nobody sets."""

import threading

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
stop = threading.Event()
writer = threading.Thread(target=stop.wait, daemon=True)
writer.start()
dist.barrier()
if rank != 2:
    stop.set()
writer.join()
dist.all_reduce(torch.ones(4))
dist.destroy_process_group()
