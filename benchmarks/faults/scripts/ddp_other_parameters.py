"""The model has as many parameters on each rank, with other shapes on rank 1."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
vocabulary = 101 if rank == 1 else 100
net = torch.nn.Sequential(torch.nn.Embedding(vocabulary, 4), torch.nn.Linear(4, 1))
model = DistributedDataParallel(net)
model(torch.tensor([[1, 2]])).mean().backward()
dist.destroy_process_group()
