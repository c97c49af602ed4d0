"""Two checkpoints share a layer, without the reentrant engine."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.shared = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        for _ in range(2):
            x = checkpoint(self.shared, self.first(x), use_reentrant=False)
        return x


dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(Model())
model(torch.full((2, 4), rank + 1.0)).mean().backward()
dist.destroy_process_group()
