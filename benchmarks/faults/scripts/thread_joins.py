"""Each rank waits for the end of its writing thread."""

import threading
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
writer = threading.Thread(target=time.sleep, args=(0.5 * rank,))
writer.start()
dist.barrier()
writer.join()
dist.all_reduce(torch.ones(4))
dist.destroy_process_group()
