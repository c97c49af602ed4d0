"""A loop of one rank does not end, because its bound is never reached."""

import torch
import torch.distributed as dist


def clip(value, bound):
    while value != bound:
        value = value - 0.3
    return value


dist.init_process_group("gloo")
rank = dist.get_rank()
dist.all_reduce(torch.ones(2))
clip(1.0 if rank == 0 else 0.0, 0.0)
dist.all_reduce(torch.ones(2))
dist.destroy_process_group()
