import threading
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()


def upload():
    raise ConnectionResetError("the store has closed the connection")


for step in range(8):
    if step == 3 and rank == 1:
        threading.Thread(target=upload, name="uploader").start()
    time.sleep(0.1)
    dist.all_reduce(torch.ones(4))
dist.destroy_process_group()
