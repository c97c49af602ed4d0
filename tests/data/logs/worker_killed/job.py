import os
import signal
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

dist.init_process_group("gloo")
rank = dist.get_rank()


class Samples(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        if index == 100 and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does when memory has run out
        return torch.ones(4)


for batch in DataLoader(Samples(), batch_size=4, num_workers=1):
    dist.all_reduce(batch)
dist.destroy_process_group()
