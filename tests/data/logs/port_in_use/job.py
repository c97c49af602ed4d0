import os, torch.distributed as dist
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29738", rank=rank, world_size=world)
print("ok")
dist.destroy_process_group()
