"""One rank tries a step again after an error that came behind its all-reduce."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
flaky = [(1, 3)]
for step in range(5):
    while True:
        try:
            dist.all_reduce(torch.ones(16))
            if (rank, step) in flaky:
                flaky.clear()
                raise OSError("cannot write the log")
        except OSError:
            continue
        break
dist.destroy_process_group()
