"""Each process builds its sampler with the rank of the configuration, which is 0."""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=3)
    return parser.parse_args()


def main(args):
    dist.init_process_group("gloo")
    world = dist.get_world_size()
    torch.manual_seed(7)
    data = TensorDataset(torch.randn(48, 4), torch.randn(48, 1))
    sampler = DistributedSampler(data, num_replicas=world, rank=args.rank)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    model = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        total = torch.zeros(1)
        dist.all_reduce(total)
    dist.destroy_process_group()


main(parse())
