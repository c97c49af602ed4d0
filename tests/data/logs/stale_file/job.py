import os, sys, torch, torch.nn as nn, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

RDZV = "/home/user/job/rendezvous"


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=f"file://{RDZV}", rank=rank, world_size=world)
    torch.manual_seed(0)
    model = DDP(nn.Linear(8, 1))
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(5):
        model(torch.randn(4, 8)).mean().backward()
        opt.step()
        opt.zero_grad()
        if os.environ.get("CRASH") and step == 2:
            os.kill(os.getpid(), 9)
    print(rank, "ok", flush=True)
    dist.destroy_process_group()


main()
