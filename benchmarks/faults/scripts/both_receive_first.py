"""Both ranks receive before they send."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
other = 1 - rank
mine, theirs = torch.full((3,), float(rank)), torch.zeros(3)
dist.barrier()
dist.recv(theirs, src=other)
dist.send(mine, dst=other)
dist.destroy_process_group()
