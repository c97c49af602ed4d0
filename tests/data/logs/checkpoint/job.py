import os, tempfile, torch, torch.nn as nn, torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def train(model, opt, steps, rank):
    for _ in range(steps):
        loss = model(torch.randn(4, 16)).pow(2).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
    return loss.item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    workdir = os.environ.get("SCRATCH") or tempfile.mkdtemp(prefix="run-")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
    fully_shard(model, mesh=mesh)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = train(model, opt, 5, rank)
    if rank == 0:
        print("loss", round(loss, 4), flush=True)
    path = os.path.join(workdir, "step5")
    dcp.save({"model": model.state_dict()}, checkpoint_id=path)
    # resume, as after a restart
    state = {"model": model.state_dict()}
    dcp.load(state, checkpoint_id=path)
    model.load_state_dict(state["model"])
    train(model, opt, 5, rank)
    dist.destroy_process_group()


main()
