"""A branch that depends on the data leaves out a layer on one rank."""

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
model = DistributedDataParallel(Model())
for step in range(4):
    image = None if (rank, step) == (1, 2) else torch.ones(2, 4)
    loss = model(torch.ones(2, 4), image).mean()
    loss.backward()
dist.destroy_process_group()
