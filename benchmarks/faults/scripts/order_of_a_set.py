"""Each rank goes through a set of names in an order of its own."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
sizes = {"encoder": 3, "decoder": 4, "head": 5, "norm": 6, "embedding": 7, "scale": 8, "bias": 9}
trained = set(sizes) - {"head"}
for name in trained:
    dist.all_reduce(torch.ones(sizes[name]))
dist.destroy_process_group()
