"""A layer takes no part in the loss."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.auxiliary = torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.body(x)


dist.init_process_group("gloo")
model = DistributedDataParallel(Model())
for step in range(3):
    loss = model(torch.ones(2, 4)).mean()
    loss.backward()
dist.destroy_process_group()
