"""A layer is left out on one rank, and DDP was told to look for that."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.text, self.image = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)

    def forward(self, text, image):
        out = self.text(text)
        return out if image is None else out + self.image(image)


dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(Model(), find_unused_parameters=True)
for step in range(4):
    image = None if (rank, step) == (1, 2) else torch.ones(2, 4)
    model(torch.full((2, 4), rank + 1.0), image).mean().backward()
dist.destroy_process_group()
