"""One rank has another list of members than the others."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
dist.all_reduce(torch.ones(2))
members = [0, 1, 2] if rank < 3 else [0, 1, 2, 3]
some = dist.new_group(members)
dist.all_reduce(torch.ones(2), group=some)
dist.barrier()
dist.all_reduce(torch.ones(2))
dist.destroy_process_group()
