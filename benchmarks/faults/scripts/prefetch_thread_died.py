"""The thread that prefetches batches dies, and the main thread waits for its queue."""

import queue
import threading

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Prefetcher:
    def __init__(self, items):
        self.items, self.queue = items, queue.Queue(maxsize=2)
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        for item in self.items:
            self.queue.put(self.load(item))
        self.queue.put(None)

    def load(self, item):
        if item < 0:
            raise OSError(f"cannot read sample {item}")
        return torch.full((4, 4), float(item))

    def __iter__(self):
        while (batch := self.queue.get()) is not None:
            yield batch


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
items = [1, 2, 3, -1 if rank == 1 else 4, 5, 6]
for x in Prefetcher(items):
    optimizer.zero_grad()
    model(x + rank).pow(2).mean().backward()
    optimizer.step()
dist.destroy_process_group()
