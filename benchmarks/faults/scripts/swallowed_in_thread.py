"""A thread that feeds one rank ends with an exception, and the rank waits for its queue."""

import queue
import threading

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
batches = queue.Queue(maxsize=2)


def read():
    for number in range(6):
        record = {"image": torch.ones(3)} if (rank, number) != (2, 3) else {}
        batches.put(record["image"])


threading.Thread(target=read, daemon=True).start()
for step in range(6):
    dist.all_reduce(batches.get())
dist.destroy_process_group()
