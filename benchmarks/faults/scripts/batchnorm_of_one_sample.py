"""The last batch of one rank holds one sample, which BatchNorm refuses."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset, TensorDataset


def build_loader(rank):
    data = TensorDataset(torch.randn(35, 6), torch.randint(0, 3, (35,)))
    mine = range(18) if rank == 0 else range(18, 35)
    return DataLoader(Subset(data, list(mine)), batch_size=8)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in build_loader(rank):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        dist.barrier()
    dist.destroy_process_group()


main()
