"""A thread reduces metrics in the group that the training uses."""

import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class AsyncMetrics(threading.Thread):
    def __init__(self, every):
        super().__init__(daemon=True)
        self.every, self.stop = every, threading.Event()
        self.value = torch.zeros(3)

    def run(self):
        while not self.stop.wait(self.every):
            buffer = self.value.clone()
            dist.all_reduce(buffer)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(16, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    metrics = AsyncMetrics(every=0.05 + 0.03 * rank)
    metrics.start()
    for step in range(200):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 16)).pow(2).mean()
        loss.backward()
        optimizer.step()
        metrics.value[0] = loss.item()
        time.sleep(0.005)
    metrics.stop.set()
    metrics.join()
    dist.barrier()
    dist.destroy_process_group()


main()
