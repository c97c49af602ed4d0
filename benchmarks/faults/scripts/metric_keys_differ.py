"""A logger reduces each metric of a dict, and one rank holds fewer in one step."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class MetricLogger:
    def __init__(self):
        self.values = {}

    def log(self, name, value):
        self.values[name] = torch.as_tensor(value, dtype=torch.float32)

    def flush(self):
        out = {}
        for name, value in self.values.items():
            dist.all_reduce(value)
            out[name] = value.item() / dist.get_world_size()
        self.values.clear()
        return out


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    metrics = MetricLogger()
    g = torch.Generator().manual_seed(rank)
    for step in range(6):
        x = torch.randn(4, 4, generator=g)
        labels = torch.randint(0, 2, (4,), generator=g)
        labels[0] = 1
        if step == 3 and rank == 1:
            labels[:] = 0
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        metrics.log("loss", loss.detach())
        if labels.any():
            metrics.log("recall", (logits.argmax(-1)[labels == 1] == 1).float().mean())
        metrics.log("accuracy", (logits.argmax(-1) == labels).float().mean())
        metrics.flush()
    dist.barrier()
    dist.destroy_process_group()


main()
