"""A worker of one rank's data loader is killed."""

import os
import signal

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        if index == 6 and dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.ones(3)


dist.init_process_group("gloo")
for batch in DataLoader(Images(), batch_size=2, num_workers=1):
    dist.all_reduce(batch.sum(0))
dist.destroy_process_group()
