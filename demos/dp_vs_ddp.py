"""DataParallel (dp) vs. DDP: one device in the middle, or all devices equal.

    torchrun --nproc-per-node 4 demos/dp_vs_ddp.py

nn.DataParallel drives all devices from one process. In every step device 0
distributes the batch, copies the weights to the others, collects their
outputs, computes the loss and adds up the gradients. Compare `dp bytes in
all` with `ddp bytes in all`: what each rank sent and received over all steps.
On a CPU, nn.DataParallel only calls the model, so dp is simulated here: each
rank plays a device, and messages stand in for copies. DDP is real; its bytes
are computed with the formula for a ring. Both end with the same gradient.

Try    --width 128           the copies of the weights soon dwarf the batch
       --batch 2400          dp moves more bytes, DDP the same number
       on 2 ranks, then 8    device 0 moves far more; a rank in the ring, not even twice as much
"""

import argparse
import os
from collections import Counter
from copy import deepcopy
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.nn  # imported after init_process_group, it would keep the group alive (torch 2.13)
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

moved = Counter()  # bytes that went out of or into this rank


def copy(tensor: torch.Tensor, source: int, target: int, what: str) -> None:
    """Copy `tensor` from one device to another and count its bytes at both ends."""
    rank = dist.get_rank()
    if rank == source:
        dist.send(tensor.contiguous(), target)
    elif rank == target:
        dist.recv(tensor, source)
    if rank in {source, target}:
        moved[what] += tensor.nbytes


def data_parallel_backward(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    """Do what nn.DataParallel does up to optimizer.step(); device 0 ends with the whole batch's gradient."""
    rank, world = dist.get_rank(), dist.get_world_size()
    others = range(1, world)

    # 1. Device 0 holds the batch and the weights. In every step it splits the batch and copies the weights.
    parts = [part if rank == 0 else torch.empty_like(part) for part in x.chunk(world)]
    for device in others:
        copy(parts[device], 0, device, "batch")
        for weight in model.parameters():
            copy(weight.data, 0, device, "weights")

    # 2. All devices compute at once. Device 0 gathers the outputs and computes the loss alone.
    output = model(parts[rank])
    outputs = [output.detach() if device == rank else torch.empty_like(output) for device in range(world)]
    for device in others:
        copy(outputs[device], device, 0, "outputs")
    gathered = torch.cat(outputs).requires_grad_()
    if rank == 0:
        loss = mse_loss(gathered, y)
        loss.backward()
        print(f"dp loss: {loss.item():.4f}")

    # 3. Backward: the outputs' gradients go out; the weights' gradients come in and are *added* on device 0.
    slopes = list((gathered.grad if rank == 0 else torch.empty_like(gathered)).chunk(world))
    for device in others:
        copy(slopes[device], 0, device, "outputs")
    output.backward(slopes[rank])
    for device in others:
        for weight in model.parameters():
            gradient = weight.grad if rank == device else torch.empty_like(weight)
            copy(gradient, device, 0, "gradients")
            if rank == 0:
                weight.grad += gradient


def train(dp: torch.nn.Module, ddp: DistributedDataParallel, whole: torch.nn.Module, args: argparse.Namespace) -> None:
    """Train one model both ways, alongside one process that has the whole batch; compare the gradients."""
    rank, world, device = dist.get_rank(), dist.get_world_size(), next(whole.parameters()).device
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.05) for model in (dp, ddp, whole)]
    data = torch.Generator().manual_seed(1)
    for _ in range(args.steps):
        x = torch.randn(args.batch, args.width, generator=data).to(device)
        y = x[:, :1].abs()
        for model in dp, ddp, whole:
            model.zero_grad()

        data_parallel_backward(dp, x, y)
        loss = mse_loss(ddp(x.chunk(world)[rank]), y.chunk(world)[rank])  # each rank computes its own loss
        loss.backward()
        mse_loss(whole(x), y).backward()
        mean = loss.detach() / world
        dist.all_reduce(mean)
        print(f"ddp loss (local part): {loss.item():.4f}")
        print(f"ddp loss (mean): {mean.item():.4f}")
        print(f"dp gradient (norm): {gradient_of(dp).norm():.4f}")
        print(f"ddp gradient (norm): {gradient_of(ddp).norm():.4f}")

        truth = gradient_of(whole)
        if rank == 0:  # the other replicas hold gradients of their parts, and will be overwritten in the next step
            assert torch.allclose(gradient_of(dp), truth, atol=1e-5), (
                "with DataParallel device 0 adds up the whole batch's gradient"
            )
        assert torch.allclose(gradient_of(ddp), truth, atol=1e-5), (
            "with DDP every rank holds the whole batch's gradient"
        )
        for optimizer in optimizers:
            optimizer.step()


def compare_bytes(reduced: int, size: int, args: argparse.Namespace, device: torch.device) -> None:
    """Compare the bytes that dp and DDP moved, for a model of `size` bytes, with the formulas."""
    rank, world = dist.get_rank(), dist.get_world_size()
    print(f"steps: {args.steps}")
    for what in "batch", "weights", "outputs", "gradients":
        print(f"dp bytes of {what}: {moved[what]}")
    ring = 4 * (world - 1) * reduced // world  # 2(N-1)/N out, as much in: Patarasuk & Yuan 2009, see allreduce.py
    print(f"dp bytes in all: {moved.total()}")
    print(f"ddp bytes in all: {ring}")
    if rank == 0:
        print("Bytes are those sent plus those received, over all steps: counted for dp, computed for ddp.")
        print("In each step of DDP's ring, a rank sends 2(N-1)/N times the model's bytes, and receives as many.")
        print("In dp, only device 0 has the loss and the whole gradient; the others have partial gradients.")

    totals = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(world)]
    dist.all_gather(totals, torch.tensor([moved.total()], device=device))
    middle, *rest = (total.item() for total in totals)
    sample = 4 * (args.width + 2)  # bytes of its inputs, its output and the output's gradient
    assert middle == args.steps * (2 * (world - 1) * size + (args.batch - args.batch // world) * sample), (
        "in every step, for each other device, device 0 moves the weights, a gradient and a part of the batch"
    )
    assert reduced == args.steps * size, (
        "in every step DDP all-reduces as many bytes as the model has, whatever the batch size"
    )
    if world > 1:
        assert middle == sum(rest), "every byte that DataParallel moves has device 0 at one end"
        assert middle > ring, "device 0 moves more than any rank of DDP's ring"


def gradient_of(model: torch.nn.Module) -> torch.Tensor:
    """Return all gradients of the model as one vector."""
    return torch.cat([weight.grad.flatten() for weight in model.parameters()])


def main() -> None:
    """Train one model both ways; compare gradients, then bytes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=32, help="inputs and hidden units of the model")
    parser.add_argument("--batch", type=int, default=48, help="samples in the whole batch")
    parser.add_argument("--steps", type=int, default=3, help="training steps")
    args = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if min(args.width, args.batch, args.steps) < 1 or args.batch % world:
        raise SystemExit(f"--width and --steps must be 1 or more, and --batch divisible by the {world} ranks.")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=10))

    torch.manual_seed(0)
    layers = torch.nn.Linear(args.width, args.width), torch.nn.ReLU(), torch.nn.Linear(args.width, 1)
    whole = torch.nn.Sequential(*layers).to(device)  # trained by one process, for comparison
    dp, ddp = deepcopy(whole), DistributedDataParallel(deepcopy(whole))
    size = sum(weight.nbytes for weight in whole.parameters())
    reduced = 0

    def count(group: dist.ProcessGroup, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        nonlocal reduced
        reduced += bucket.buffer().nbytes
        return allreduce_hook(group, bucket)  # what DDP does without a hook

    print(f"role in dp: device {rank}")
    print(f"bytes of the model: {size}")
    ddp.register_comm_hook(dist.group.WORLD, count)
    train(dp, ddp, whole, args)
    compare_bytes(reduced, size, args, device)
    del ddp  # before the group is destroyed: DDP still refers to it
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
