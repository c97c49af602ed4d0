import datetime, torch, torch.distributed as dist
torch.cuda.set_device(0); dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=6))
x = torch.ones(4, device="cuda"); dist.all_reduce(x); torch.cuda.synchronize()
for i in range(20): torch.cuda._sleep(2_000_000_000)
dist.all_reduce(x); torch.cuda.synchronize()
