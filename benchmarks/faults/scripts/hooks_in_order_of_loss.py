"""Gradient hooks reduce in the order of backward passes, which depends on data."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
heads = [torch.nn.Linear(8, 1, bias=False), torch.nn.Linear(24, 1, bias=False)]
pending = []
for head in heads:
    head.weight.register_post_accumulate_grad_hook(
        lambda weight: pending.append(dist.all_reduce(weight.grad, async_op=True))
    )
for step in range(4):
    tasks = [(head, torch.ones(1, head.in_features)) for head in heads]
    if rank == 0 and step == 2:
        tasks.reverse()
    for head, x in tasks:
        head(x).sum().backward()
    while pending:
        pending.pop(0).wait()
dist.destroy_process_group()
