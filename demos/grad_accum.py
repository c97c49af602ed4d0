"""Gradient accumulation: many micro-batches, one step, one all-reduce.

    torchrun --nproc-per-node 4 demos/grad_accum.py

A batch that does not fit into memory is split into micro-batches, whose
gradients add up in .grad. DDP does not know which backward is the last, so it
averages after each one, except inside ddp.no_sync(). Compare the number of
all-reduces with plain DDP, with forward and backward inside no_sync, and with
only backward inside it, which is too late. Also compare the gradient before and
after the last micro-batch: first the rank's own, then the mean over all ranks.

Try    --micro-batches 8    no_sync still needs only one all-reduce
       --undivided          losses are not divided: the gradient is 4 times too large
       --never-sync         every rank is left with a gradient of its own
"""

import argparse
import os
from contextlib import nullcontext
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.nn  # imported after init_process_group, it would keep the group alive (torch 2.13)
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

SAMPLES = 4  # in a micro-batch of one rank


def accumulate(
    way: str, ddp: DistributedDataParallel, x: torch.Tensor, y: torch.Tensor, args: argparse.Namespace
) -> None:
    """Add up the gradients of this rank's micro-batches in one of three ways."""
    weight, count = ddp.module.weight, len(x)
    ddp.zero_grad()
    for number in range(1, count + 1):
        quiet = way != "plain ddp" and (number < count or args.never_sync)
        # DDP decides in *forward* whether backward will all-reduce, so forward must be inside no_sync too.
        with ddp.no_sync() if quiet and way == "no_sync" else nullcontext():
            loss = mse_loss(ddp(x[number - 1]), y[number - 1]) / (1 if args.undivided else count)
            with ddp.no_sync() if quiet else nullcontext():
                loss.backward()
        if way == "no_sync" and number >= count - 1:
            print(f"no_sync grad ({number} of {count}): {shown(weight.grad)}")
            if number < count and dist.get_world_size() > 1:
                assert spread(weight.grad) > 0.01, (
                    "inside no_sync each rank adds up its own gradients; nothing is averaged yet"
                )


def compare(made: dict[str, tuple[int, torch.Tensor]], whole: torch.Tensor, args: argparse.Namespace) -> None:
    """Compare the all-reduces and gradient of each way with those of one process on the whole batch."""
    count = args.micro_batches
    print(f"one process (all data): {shown(whole)}")
    print(f"norm no_sync / one process: {made['no_sync'][1].norm() / whole.norm():.3f}")
    for way, (times, _) in made.items():
        print(f"all-reduces ({way}): {times}")
    if dist.get_rank() == 0:
        print("The model has two weights, so a gradient is two numbers.")
        print("`norm no_sync / one process` compares the norms of the gradients after the last micro-batch.")
        print("Late no_sync wraps only backward, but DDP has already decided in forward that it will all-reduce.")
    assert made["plain ddp"][0] == count, "without no_sync every micro-batch costs an all-reduce"
    assert made["late no_sync"][0] == count, "with forward outside no_sync, every micro-batch still costs an all-reduce"
    if args.never_sync:
        times, gradient = made["no_sync"]
        assert times == 0, "with no_sync around every micro-batch, there is no all-reduce at all"
        assert spread(gradient) > 0.01, "never averaged, the ranks' gradients differ, and so would their next weights"
        return
    assert made["no_sync"][0] == 1, "with no_sync around all but the last micro-batch, one all-reduce is enough"
    for _, gradient in made.values():
        if args.undivided:
            assert torch.allclose(gradient, count * whole, atol=1e-5), (
                "without dividing the losses, the gradient is as many times too large as there are micro-batches"
            )
        else:
            assert torch.allclose(gradient, whole, atol=1e-6), (
                "with divided losses, the micro-batches add up to one process's gradient on the whole batch"
            )


def spread(tensor: torch.Tensor) -> float:
    """Return the largest difference between the ranks' copies of `tensor`."""
    high, low = tensor.clone(), tensor.clone()
    dist.all_reduce(high, dist.ReduceOp.MAX)
    dist.all_reduce(low, dist.ReduceOp.MIN)
    return (high - low).max().item()


def shown(tensor: torch.Tensor) -> str:
    """Format the numbers of a small tensor."""
    return " ".join(f"{number:.2f}" for number in tensor.flatten().tolist())


def main() -> None:
    """Accumulate one gradient in three ways and compare each with one process on the whole batch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--micro-batches", type=int, default=4, help="micro-batches per rank in one optimizer step")
    parser.add_argument("--undivided", action="store_true", help="do not divide losses by the number of micro-batches")
    parser.add_argument("--never-sync", action="store_true", help="put the last micro-batch inside no_sync as well")
    args = parser.parse_args()
    rank, world, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), args.micro_batches
    if count < 2 or (args.never_sync and world < 2):
        raise SystemExit("--micro-batches needs 2 or more, and --never-sync needs 2 ranks or more.")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=10))

    # 1. A model of two weights, equal on all ranks, and micro-batches: x[r][i] is the i-th of rank r.
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1, bias=False).to(device)
    x = torch.randn(world, count, SAMPLES, 2).to(device)
    y = x @ torch.tensor([[2.0], [-1.0]], device=device) + 0.5
    (whole,) = torch.autograd.grad(mse_loss(model(x), y), model.weight)  # one process, the whole batch at once

    # 2. DDP hands each bucket that it all-reduces to this hook, so we can count.
    ddp = DistributedDataParallel(model)
    all_reduces = 0

    def counted(group: dist.ProcessGroup, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        nonlocal all_reduces
        all_reduces += 1
        return allreduce_hook(group, bucket)  # what DDP does without a hook

    ddp.register_comm_hook(dist.group.WORLD, counted)

    # 3. Use the same micro-batches each way. The mean loss is the sum of all losses, each divided by their number.
    made = {}
    for way in "plain ddp", "no_sync", "late no_sync":
        all_reduces = 0
        accumulate(way, ddp, x[rank], y[rank], args)
        made[way] = all_reduces, model.weight.grad.clone()
    compare(made, whole, args)
    del ddp  # before the group is destroyed: DDP still refers to it
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
