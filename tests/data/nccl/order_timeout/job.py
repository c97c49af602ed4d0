import datetime, os, sys, time, torch, torch.distributed as dist
os.environ["NCCL_HOSTID"] = "host" + os.environ["RANK"]; os.environ["NCCL_SOCKET_IFNAME"] = "lo"
torch.cuda.set_device(0)
dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=8))
r = dist.get_rank(); x = torch.ones(1024, device="cuda")
for i in range(3): dist.all_reduce(x)
torch.cuda.synchronize()

a = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=8)); b = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=8))
for g in (a, b): dist.all_reduce(x, group=g)
torch.cuda.synchronize()
for g in ((a, b) if r == 0 else (b, a)):
    dist.all_reduce(x, group=g); torch.cuda.synchronize()
