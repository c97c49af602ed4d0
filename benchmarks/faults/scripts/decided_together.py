"""All ranks skip a step in which the loss of one is not finite."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
for step in range(5):
    loss = torch.tensor(float("nan") if (rank, step) == (2, 3) else 1.0)
    is_bad = (~torch.isfinite(loss)).float()
    dist.all_reduce(is_bad)
    if is_bad == 0:
        dist.all_reduce(loss)
    dist.broadcast(torch.zeros(1, dtype=torch.int64), src=0)
dist.destroy_process_group()
