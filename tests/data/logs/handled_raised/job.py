import time
import traceback

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()

for step in range(8):
    try:
        if step == 3:
            raise ValueError("sample 17 is broken")
    except ValueError:
        traceback.print_exc()
    time.sleep(0.2)
    if step == 5 and rank == 1:
        raise IndexError("no such layer")
    dist.all_reduce(torch.ones(4))
dist.destroy_process_group()
