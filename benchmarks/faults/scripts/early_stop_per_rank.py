"""Each rank stops when its own validation loss has not improved."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class EarlyStopping:
    def __init__(self, patience):
        self.best, self.bad, self.patience = float("inf"), 0, patience

    def should_stop(self, loss):
        if loss < self.best:
            self.best, self.bad = loss, 0
        else:
            self.bad += 1
        return self.bad >= self.patience


def evaluate(model, val):
    model.eval()
    with torch.no_grad():
        loss = (model.module(val[0]) - val[1]).pow(2).mean().item()
    model.train()
    return loss


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(96, 4), torch.randn(96, 1))
    losses = {0: [5, 4, 3, 2, 1, 0.5], 1: [5, 4, 3, 2, 1, 0.5], 2: [5, 4, 4.5, 4.6, 4.7, 4.8]}[rank]
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    stopping = EarlyStopping(patience=2)
    for epoch in range(6):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        if stopping.should_stop(losses[epoch]):
            break
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
