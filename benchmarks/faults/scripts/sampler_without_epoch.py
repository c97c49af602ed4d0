"""The sampler is never told the epoch, so each epoch has the same order."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

dist.init_process_group("gloo")
data = torch.arange(32.0)
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=4, sampler=sampler)
model = DistributedDataParallel(torch.nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for epoch in range(3):
    for batch in loader:
        optimizer.zero_grad()
        model(batch[:, None]).mean().backward()
        optimizer.step()
dist.destroy_process_group()
