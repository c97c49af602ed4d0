import datetime, os, sys, time, torch, torch.distributed as dist
os.environ["NCCL_HOSTID"] = "host" + os.environ["RANK"]; os.environ["NCCL_SOCKET_IFNAME"] = "lo"
torch.cuda.set_device(0)
dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=8))
r = dist.get_rank(); x = torch.ones(1024, device="cuda")
for i in range(3): dist.all_reduce(x)
torch.cuda.synchronize()

def load(): time.sleep(30)
for i in range(4):
    if r == 2 and i == 2: load()
    dist.all_reduce(x); torch.cuda.synchronize()
