"""A rank whose loss is not finite skips the all-reduce of that step."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
for step in range(5):
    loss = torch.tensor(float("nan") if (rank, step) == (2, 3) else 1.0)
    if torch.isfinite(loss):
        dist.all_reduce(loss)
    done = torch.zeros(1, dtype=torch.int64)
    dist.broadcast(done, src=0)
dist.destroy_process_group()
