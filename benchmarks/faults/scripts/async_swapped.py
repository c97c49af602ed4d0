"""One rank starts two asynchronous all-reduces in the other order."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
weight, bias = torch.ones(64, 16), torch.ones(16)
for step in range(5):
    if rank == 1 and step == 3:
        works = [dist.all_reduce(bias, async_op=True)]
        works.append(dist.all_reduce(weight, async_op=True))
    else:
        works = [dist.all_reduce(weight, async_op=True)]
        works.append(dist.all_reduce(bias, async_op=True))
    for work in works:
        work.wait()
dist.destroy_process_group()
