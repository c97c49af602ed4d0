"""DistributedDataParallel: equal replicas, different data, one mean gradient.

    torchrun --nproc-per-node 4 demos/ddp.py

Each rank builds a model with two weights from its own random seed and has four
samples of its own. Wrapping the model in DDP copies rank 0's weights to all
ranks, once. From then on only gradients are exchanged: each backward pass leaves
the mean of all ranks' gradients on every rank, and equal replicas that take
equal steps stay equal. Compare `local gradient`, different on every rank, with
`gradient after backward`, the same on every rank.

Try    --loss sum       DDP still divides by N: gradient / one process falls to 1/N, and
                        the weights of one process come out differently
       --perturb 1      changes rank 1's weights: its `weight gap to rank 0` never closes
       --steps 30       the replicas still stay equal
"""

import argparse
import os
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.nn  # imported after init_process_group, it would keep the group alive (torch 2.13)
from torch.nn.parallel import DistributedDataParallel

LEARNING_RATE = 0.05
NUDGE = 0.5  # what --perturb adds to each weight of one rank


def wrap(model: torch.nn.Linear) -> DistributedDataParallel:
    """Make replicas that start out different equal: DDP broadcasts rank 0's weights to all ranks."""
    starts = of_all_ranks(model.weight)
    show("weights before wrapping", model.weight)
    ddp = DistributedDataParallel(model)
    show("weights after wrapping", model.weight)
    if len(starts) > 1:
        assert not torch.equal(starts[0], starts[-1]), "different seeds gave the replicas different weights"
    assert torch.equal(model.weight, starts[0]), "after wrapping every rank holds the weights that rank 0 started with"
    return ddp


def average_gradients(ddp: DistributedDataParallel, loss_of: torch.nn.MSELoss, data: tuple[torch.Tensor, ...]) -> None:
    """Run one backward pass, and compare its gradient with the rank's own and with one process's."""
    model, world, (x, y, whole_x, whole_y) = ddp.module, dist.get_world_size(), data
    (own,) = torch.autograd.grad(loss_of(model(x), y), model.weight)  # this bypasses DDP's hooks
    (whole,) = torch.autograd.grad(loss_of(model(whole_x), whole_y), model.weight)  # one process, the whole batch
    loss_of(ddp(x), y).backward()
    show("local gradient", own)
    show("gradient after backward", model.weight.grad)
    show("one process (all data)", whole)
    print(f"gradient / one process: {model.weight.grad.norm() / whole.norm():.3f}")
    mean = torch.stack(of_all_ranks(own)).mean(0)
    assert torch.allclose(model.weight.grad, mean), "backward leaves the mean of all ranks' gradients on every rank"
    if loss_of.reduction == "mean":
        assert torch.allclose(mean, whole), "with a mean loss, the average equals one process's whole-batch gradient"
    else:  # the whole batch's gradient is the sum over ranks, and DDP divided that sum by their number
        assert torch.allclose(mean, whole / world), "with a sum loss, the average is only 1/N of one process's gradient"


def train(
    ddp: DistributedDataParallel, loss_of: torch.nn.MSELoss, data: tuple[torch.Tensor, ...], args: argparse.Namespace
) -> None:
    """Each rank takes its own steps. Only gradients are exchanged, and weights are never compared."""
    model, rank, world, (x, y, whole_x, whole_y) = ddp.module, dist.get_rank(), dist.get_world_size(), data
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    alone = model.weight.detach().clone().requires_grad_()  # one process on the whole batch, for comparison
    for step in range(args.steps):
        if rank == args.perturb and step == args.steps // 2:
            model.weight.data += NUDGE
        optimizer.zero_grad()
        loss = loss_of(ddp(x), y)
        loss.backward()
        optimizer.step()
        replicas = of_all_ranks(model.weight)
        print(f"loss on local samples: {loss.item():.4f}")
        print(f"weight gap to rank 0: {(model.weight - replicas[0]).norm().item():.3f}")
        if args.perturb is None:
            same = all(torch.equal(replica, model.weight) for replica in replicas)
            assert same, "after every step all replicas are equal, bit for bit"
        (gradient,) = torch.autograd.grad(loss_of(whole_x @ alone.T, whole_y), alone)
        alone.data -= LEARNING_RATE * gradient
    show("weights after training", model.weight)
    show("weights of one process", alone)
    alike = torch.allclose(model.weight, alone, atol=1e-5)
    if args.perturb is None and (args.loss == "mean" or world == 1):
        assert alike, "the final weights equal those of one process"
    elif args.perturb is None:  # its steps are N times as large
        assert not alike, "with a sum loss, the final weights are not those of one process"
    else:
        gap = replicas[args.perturb] - replicas[(args.perturb + 1) % world] - NUDGE
        assert gap.abs().max() < 1e-5, "the changed replica stays different: equal steps never close the gap"


def of_all_ranks(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Gather every rank's copy of `tensor`, in the order of ranks."""
    copies = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(copies, tensor.detach().contiguous())
    return copies


def show(label: str, tensor: torch.Tensor) -> None:
    """Print the numbers of a small tensor."""
    print(f"{label}: {' '.join(f'{number:.2f}' for number in tensor.flatten().tolist())}")


def main() -> None:
    """Wrap, look at one backward pass, train; compare with one process each time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loss", choices=["mean", "sum"], default="mean", help="how the loss combines samples")
    parser.add_argument("--perturb", type=int, metavar="RANK", help="change this rank's weights halfway through")
    parser.add_argument("--steps", type=int, default=6, help="training steps")
    args = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if args.steps < 1:
        raise SystemExit("--steps needs 1 or more: without a step there is nothing to compare.")
    if args.perturb is not None and (world < 2 or not 0 <= args.perturb < world):
        raise SystemExit(f"--perturb needs at least 2 ranks and must name one: this run has ranks 0 to {world - 1}.")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=10))

    # The same whole batch is known to all, so that one process can check the result; training uses only x and y.
    seeded = torch.Generator().manual_seed(7)
    whole_x = torch.randn(4 * world, 2, generator=seeded).to(device)
    whole_y = whole_x @ torch.tensor([[2.0], [-1.0]], device=device) + 0.5
    x, y = whole_x[rank::world], whole_y[rank::world]
    data = x, y, whole_x, whole_y

    torch.manual_seed(rank)
    loss_of = torch.nn.MSELoss(reduction=args.loss)
    ddp = wrap(torch.nn.Linear(2, 1, bias=False).to(device))
    average_gradients(ddp, loss_of, data)
    train(ddp, loss_of, data, args)
    del ddp  # before the group is destroyed: DDP still refers to it
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
