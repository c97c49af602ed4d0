"""Each rank names itself as the source of a broadcast."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
weight = torch.full((4,), float(rank))
dist.barrier()
dist.broadcast(weight, src=rank)
dist.barrier()
print("weight", weight[0].item())
dist.destroy_process_group()
