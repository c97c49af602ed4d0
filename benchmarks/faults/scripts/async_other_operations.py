"""One rank starts a broadcast before the all-reduce that the others start first."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
loss, settings = torch.ones(4), torch.zeros(4)
for step in range(4):
    calls = ["loss", "settings"]
    if (rank, step) == (2, 2):
        calls.reverse()
    works = []
    for name in calls:
        if name == "loss":
            works.append(dist.all_reduce(loss, async_op=True))
        else:
            works.append(dist.broadcast(settings, src=0, async_op=True))
    [work.wait() for work in works]
dist.destroy_process_group()
