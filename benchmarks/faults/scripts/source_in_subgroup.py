"""A broadcast in a subgroup names its source by its place in the group."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
mine = pairs[rank // 2]
x = torch.full((2,), float(rank))
dist.all_reduce(x)
dist.broadcast(x, group_src=0, group=mine)
dist.all_reduce(x)
dist.destroy_process_group()
