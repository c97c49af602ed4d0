"""require_backward_grad_sync is set between forward and backward, which is too late."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1337)
model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)))
raw_model = model.module
optimizer = torch.optim.AdamW(raw_model.parameters(), lr=3e-3)
accumulation = 4
generator = torch.Generator().manual_seed(100 + rank)
for step in range(6):
    optimizer.zero_grad()
    loss_accum = 0.0
    for micro_step in range(accumulation):
        x = torch.randn(8, 16, generator=generator)
        y = torch.randn(8, 16, generator=generator)
        loss = nn.functional.mse_loss(model(x), y) / accumulation
        loss_accum += loss.detach()
        model.require_backward_grad_sync = micro_step == accumulation - 1
        loss.backward()
    dist.all_reduce(loss_accum)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
dist.destroy_process_group()
