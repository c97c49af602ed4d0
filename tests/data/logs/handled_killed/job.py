import logging
import os
import signal
import time

import torch
import torch.distributed as dist

logging.basicConfig(format="%(asctime)s %(levelname)s trainer: %(message)s")
dist.init_process_group("gloo")
rank = dist.get_rank()

for step in range(8):
    try:
        if step == 3:
            raise ValueError("sample 17 is broken")
    except ValueError:
        logging.exception("skipping a sample")
    time.sleep(0.2)
    if step == 5 and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(torch.ones(4))
dist.destroy_process_group()
