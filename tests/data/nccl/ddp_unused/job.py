import datetime, os, sys, time, torch, torch.distributed as dist
os.environ["NCCL_HOSTID"] = "host" + os.environ["RANK"]; os.environ["NCCL_SOCKET_IFNAME"] = "lo"
torch.cuda.set_device(0)
dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=8))
r = dist.get_rank(); x = torch.ones(1024, device="cuda")
for i in range(3): dist.all_reduce(x)
torch.cuda.synchronize()

class M(torch.nn.Module):
    def __init__(self): super().__init__(); self.a = torch.nn.Linear(8, 8); self.b = torch.nn.Linear(8, 8)
    def forward(self, v): return self.a(v) if r == 0 else self.b(self.a(v))
m = torch.nn.parallel.DistributedDataParallel(M().cuda())
for i in range(3): m(torch.ones(2, 8, device="cuda")).sum().backward()
torch.cuda.synchronize()
