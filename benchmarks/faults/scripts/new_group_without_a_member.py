"""A member of a group does not call new_group for it."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
dist.all_reduce(torch.ones(2))
if rank < 2:
    everyone = dist.new_group([0, 1, 2])
dist.all_reduce(torch.ones(2))
dist.destroy_process_group()
