"""A receive is started, and its buffer is read before anybody waits for it."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
buffer = torch.zeros(200_000)
total = 0.0
for step in range(4):
    if rank == 0:
        dist.send(torch.full((200_000,), 1.0 + step), dst=1)
    else:
        work = dist.irecv(buffer, src=0)
        total += buffer.sum().item()
        work.wait()
print("total", total)
dist.destroy_process_group()
