"""Local SGD: take several steps alone, then average weights, not gradients.

    torchrun --nproc-per-node 4 demos/local_sgd.py

Each rank trains its own replica on its own samples for H steps and sends
nothing; then all replicas are replaced by their mean. That is H times fewer
all-reduces than DDP needs. The price is drift: between averages each replica
moves towards the weights that suit its own samples best.
Look at `distance to the mean`, a sawtooth that returns to 0 at each average,
and at a rank's own loss and the loss on all samples before and after an average.
The all_gather in every step only measures the distance; training needs none.

Try    --every 1                     averaging weights is averaging gradients
       --every 1 --optimizer adam    with Adam it is not, even at every step
       --every 12 --skew 3           ranks' samples differ more: more drift
"""

import argparse
import os
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.nn  # imported after init_process_group, it would keep the group alive (torch 2.13)

FEATURES, SAMPLES = 8, 32  # the linear regression: its features, and samples per rank
RATES = {"sgd": 0.1, "adam": 0.05}


def step(model: torch.nn.Linear, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> None:
    """Take one ordinary training step."""
    optimizer.zero_grad()
    loss_of(model.weight, x, y).backward()
    optimizer.step()


def train(model: torch.nn.Linear, optimizer: torch.optim.Optimizer, data: list, args: argparse.Namespace) -> tuple:
    """Take local steps and average the weights after every H; return the mean of all replicas and the bytes sent."""
    world, (x, y, all_x, all_y) = dist.get_world_size(), data
    sent = 0
    for number in range(1, args.steps + 1):
        step(model, optimizer, x, y)
        replicas = of_all_ranks(model.weight.data)
        mean = replicas.mean(dim=0)
        due = number % args.every == 0
        if due:
            # Torch has this as PeriodicModelAverager, whose first average is at step 0.
            dist.all_reduce(model.weight.data)
            model.weight.data /= world
            sent += model.weight.nbytes
        print(f"distance to the mean: {(model.weight - mean).norm():.3f}")
        print(f"loss on local samples: {loss_of(model.weight, x, y):.3f}")
        print(f"loss on all samples: {loss_of(model.weight, all_x, all_y):.3f}")
        if due:
            compare_average(replicas, model.weight, data)
    return mean, sent


def compare_average(replicas: torch.Tensor, weights: torch.Tensor, data: list) -> None:
    """Compare the replicas before an average with the weights of this rank after it."""
    rank, mean, (x, y, all_x, all_y) = dist.get_rank(), replicas.mean(dim=0), data
    losses, current = torch.stack([loss_of(each, all_x, all_y) for each in replicas]), loss_of(weights, all_x, all_y)
    own_before, own_after = loss_of(replicas[rank], x, y), loss_of(weights, x, y)
    print(f"distance before an average: {(replicas[rank] - mean).norm():.3f}")
    print(f"local loss (average): {own_before:.2f} -> {own_after:.2f}")
    print(f"global loss (average): {losses[rank]:.2f} -> {current:.2f}")
    print(f"loss moves (local/global): {moved(own_before, own_after)}/{moved(losses[rank], current)}")
    first, last = of_all_ranks(weights.data)[[0, -1]]
    assert torch.equal(first, last), "after an average all replicas are equal, bit for bit"
    assert torch.allclose(weights, mean, atol=1e-6), "after an average every rank holds the mean of all replicas"
    if len(replicas) > 1:  # the loss is convex (Jensen); in a deep network, this holds only for replicas that are close
        assert current < losses.mean(), "the mean replica fits all samples better than the replicas did"


def compare_with_ddp(mine: torch.Tensor, mean: torch.Tensor, sent: int, data: list, args: argparse.Namespace) -> None:
    """Compare with one process that does what DDP does: every step has the mean gradient of all samples."""
    world, (_, _, all_x, all_y) = dist.get_world_size(), data
    alone, optimizer = replica(args.optimizer, all_x.device)
    for _ in range(args.steps):
        step(alone, optimizer, all_x, all_y)
    off = (mine - alone.weight).norm().item()
    print(f"all-reduced (bytes): {sent}")
    print(f"all-reduced by ddp (bytes): {args.steps * mine.nbytes}")
    print(f"loss at the end (averaged): {loss_of(mean, all_x, all_y):.3f}")  # replicas averaged after the last step
    print(f"loss at the end (ddp): {loss_of(alone.weight, all_x, all_y):.3f}")
    print(f"distance from ddp (norm): {off:.4f}")
    print(f"weights of ddp (norm): {alone.weight.norm():.4f}")
    averages = args.steps // args.every
    assert sent == averages * mine.nbytes, "an average every H steps moves 1/H of DDP's bytes"
    if world > 1 and args.every > 1:
        assert off > 1e-3, "local steps do not end where DDP ends"
    elif args.optimizer == "sgd":
        assert off < 1e-4, "with SGD and H = 1, averaging weights is averaging gradients"
    elif world > 1:
        assert off > 1e-3, "Adam is not linear: averaging its weights is not averaging gradients, even with H = 1"


def replica(name: str, device: torch.device) -> tuple[torch.nn.Linear, torch.optim.Optimizer]:
    """Make a model with the same weights on every rank, and its optimizer."""
    model = torch.nn.Linear(FEATURES, 1, bias=False).to(device)
    torch.nn.init.zeros_(model.weight)
    return model, {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[name](model.parameters(), lr=RATES[name])


def loss_of(weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the mean squared error of a model with these weights."""
    return torch.nn.functional.mse_loss(x @ weights.T, y)


def moved(before: torch.Tensor, after: torch.Tensor) -> str:
    """Say in which direction a loss moved."""
    return "same" if torch.allclose(before, after) else "up" if after > before else "down"


def of_all_ranks(weights: torch.Tensor) -> torch.Tensor:
    """Gather every rank's weights, for display only."""
    copies = [torch.empty_like(weights) for _ in range(dist.get_world_size())]
    dist.all_gather(copies, weights)
    return torch.stack(copies)


def main() -> None:
    """Train with local steps, then one process on all samples, as DDP would."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", type=int, default=5, metavar="H", help="local steps from one average to the next")
    parser.add_argument("--optimizer", choices=list(RATES), default="sgd", help="what takes the local steps")
    parser.add_argument("--skew", type=float, default=1, help="how much the ranks' samples differ")
    parser.add_argument("--steps", type=int, default=25, help="steps of each rank")
    args = parser.parse_args()
    if args.every < 1 or args.steps < args.every:
        raise SystemExit("--every needs 1 or more, and --steps at least as many: without an average nothing is shared.")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=30))
    rank, world = dist.get_rank(), dist.get_world_size()

    # All samples are known to all, so that one process can check the result. Different weights fit each rank's best.
    seeded = torch.Generator().manual_seed(5)
    whole_x = torch.randn(world, SAMPLES, FEATURES, generator=seeded)
    best = torch.ones(FEATURES) + args.skew * torch.randn(world, FEATURES, generator=seeded)
    whole_y = (whole_x * best[:, None]).sum(dim=2, keepdim=True)
    whole_x, whole_y = whole_x.to(device), whole_y.to(device)
    data = [whole_x[rank], whole_y[rank], whole_x.flatten(0, 1), whole_y.flatten(0, 1)]

    model, optimizer = replica(args.optimizer, device)
    print(f"setting: H = {args.every} local step{'s' * (args.every > 1)}, {args.steps} steps in all")
    if rank == 0:
        print("The all_gather in every step only measures the distance: training sends")
        print("nothing but the all_reduce of each average.")
    mean, sent = train(model, optimizer, data, args)
    compare_with_ddp(model.weight.data, mean, sent, data, args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
