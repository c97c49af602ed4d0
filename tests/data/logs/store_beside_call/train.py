

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

dist.init_process_group("gloo")
rank = dist.get_rank()
store = distributed_c10d._get_default_store()
if rank == 0:
    store.set("vocabulary-ready", "1")
else:
    store.get("vocabulary_ready")
dist.all_reduce(torch.ones(2))
dist.destroy_process_group()
