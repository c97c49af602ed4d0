"""A signal reaches one rank only, which saves and stops."""

import os
import signal

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Preemption:
    def __init__(self):
        self.requested = False
        signal.signal(signal.SIGUSR1, self.handle)

    def handle(self, *_):
        self.requested = True


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    preemption = Preemption()
    g = torch.Generator().manual_seed(rank)
    for step in range(12):
        if rank == 1 and step == 6:
            os.kill(os.getpid(), signal.SIGUSR1)
        optimizer.zero_grad()
        model(torch.randn(2, 4, generator=g)).pow(2).mean().backward()
        optimizer.step()
        if preemption.requested:
            torch.save(model.state_dict(), f"preempted-{rank}.pt")
            break
    losses = [None] * dist.get_world_size()
    dist.all_gather_object(losses, step)
    dist.destroy_process_group()


main()
