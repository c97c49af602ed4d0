

import os
import time

import torch
import torch.distributed as dist

if os.environ["RANK"] == "2":
    while not os.path.exists("vocabulary.json"):
        time.sleep(0.1)
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(2))
dist.destroy_process_group()
