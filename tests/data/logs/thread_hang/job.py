import threading
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
done = threading.Event()


def upload():
    raise ConnectionResetError("the store has closed the connection")
    done.set()


for step in range(8):
    if step == 3 and rank == 1:
        threading.Thread(target=upload, name="uploader").start()
        done.wait()
    dist.all_reduce(torch.ones(4))
dist.destroy_process_group()
