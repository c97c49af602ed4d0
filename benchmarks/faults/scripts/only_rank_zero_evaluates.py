"""Rank 0 evaluates by itself, and its metric is all-reduced inside."""

import torch
import torch.distributed as dist


def evaluate():
    correct = torch.ones(1)
    dist.all_reduce(correct)
    return correct


dist.init_process_group("gloo")
rank = dist.get_rank()
for step in range(6):
    gradient = torch.ones(32)
    dist.all_reduce(gradient)
    if step == 4 and rank == 0:
        evaluate()
dist.destroy_process_group()
