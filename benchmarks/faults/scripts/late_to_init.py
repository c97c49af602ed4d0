"""One rank joins the group two seconds after the others."""

import os
import time

import torch
import torch.distributed as dist

if os.environ["RANK"] == "2":
    time.sleep(2)
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(2))
dist.destroy_process_group()
