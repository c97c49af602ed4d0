

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
x = torch.zeros(3)
for micro in range(3):
    if rank == 0:
        dist.send(x + micro, dst=1, tag=micro)
    else:
        dist.recv(x, src=0, tag=micro + 1)
dist.destroy_process_group()
