"""The other ranks load a checkpoint that rank 0 is still writing."""

import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

PATH = Path("read_before.pt")


def save(model):
    with PATH.open("wb") as file:
        file.write(b"PK")
        file.flush()
        time.sleep(1.5)
        torch.save(model.module.state_dict(), file)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
if rank == 0:
    save(model)
time.sleep(0.5)
model.module.load_state_dict(torch.load(PATH))
for step in range(3):
    optimizer.zero_grad()
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
dist.destroy_process_group()
