"""The loss of one rank does not depend on what it gathered, so its backward pass lacks the collective."""

import warnings

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as distnn
from torch import nn

warnings.simplefilter("ignore")


class Contrastive(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(8, 4)

    def forward(self, x, has_pair):
        features = nn.functional.normalize(self.encoder(x), dim=-1)
        everything = torch.cat(distnn.all_gather(features))
        if not has_pair:
            return features.pow(2).mean()
        return (features @ everything.T).logsumexp(-1).mean()


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = Contrastive()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    loss = model(torch.randn(4, 8), has_pair=not (rank == 1 and step == 3))
    optimizer.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= world
    optimizer.step()
dist.destroy_process_group()
