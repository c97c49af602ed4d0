"""All ranks start two all-reduces in one order, and wait for them in another."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
weight, bias = torch.ones(64, 16), torch.ones(16)
for step in range(5):
    works = [dist.all_reduce(weight, async_op=True), dist.all_reduce(bias, async_op=True)]
    for work in reversed(works):
        work.wait()
dist.destroy_process_group()
