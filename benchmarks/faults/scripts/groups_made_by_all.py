"""All ranks make both groups, and each pair then makes another number of calls."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
for _ in range(2 + 3 * (rank // 2)):
    dist.all_reduce(torch.ones(2), group=pairs[rank // 2])
dist.all_reduce(torch.ones(2))
dist.destroy_process_group()
