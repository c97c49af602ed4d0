

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
dist.all_reduce(torch.ones(2))
if rank < 2:
    pair = dist.new_group([0, 1])
    dist.all_reduce(torch.ones(2), group=pair)
everyone = dist.new_group([0, 1, 2, 3])
dist.all_reduce(torch.ones(2), group=everyone)
dist.destroy_process_group()
