"""Learning rate and batch size: a batch k times as large takes 1/k of the steps, so each step must go further.

    torchrun --nproc-per-node 4 demos/lr_scaling.py

One process trains with a batch of 24: the base. Then all ranks together train on k times that batch, each on its part of
it, for as many epochs, with the learning rate kept (same), times the square root of k (sqrt) and times k (linear).
Look at `loss (same)` lagging behind `loss (base)`, at `loss (linear)` following it, and at what a large k does to that.
Only k counts, not the number of ranks. The model is linear, so its curvature never changes; warm-up, which helps real
networks while their curvature is still falling, would help nothing here.

Try    --k 16                the linear rule still follows, the others are far behind
       --k 24                k steps in one overshoot: the linear rule diverges
       --epochs 12           time for the unchanged rate to catch up
"""

import argparse
import math
import os
from datetime import timedelta

import torch
import torch.distributed as dist

SAMPLES, FEATURES, BASE_BATCH, BASE_RATE = 1152, 8, 24, 0.05
RULES = {"same": lambda k: 1, "sqrt": math.sqrt, "linear": lambda k: k}  # what to multiply the learning rate with


def make_data(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """A linear problem, the same on all ranks, whose flattest direction is 25 times flatter than its steepest."""
    seeded = torch.Generator().manual_seed(0)
    scale = torch.logspace(0, math.log10(0.2), FEATURES, dtype=torch.float64)
    x = torch.randn(SAMPLES, FEATURES, generator=seeded, dtype=torch.float64) * scale
    y = x @ (1 / scale) + 0.1 * torch.randn(SAMPLES, generator=seeded, dtype=torch.float64)
    return x.to(device), y.to(device)


def train(x: torch.Tensor, y: torch.Tensor, batch: int, rate: float, epochs: int, *, alone: bool) -> tuple[list, int]:
    """Losses on all samples, before training and after each epoch, and the steps that it took."""
    rank, world = (0, 1) if alone else (dist.get_rank(), dist.get_world_size())
    weights = torch.zeros_like(x[0], requires_grad=True)

    def loss_on(samples: torch.Tensor | slice) -> torch.Tensor:
        return (x[samples] @ weights - y[samples]).square().mean()

    losses, steps = [loss_on(slice(None)).item()], 0
    for epoch in range(epochs):
        order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(epoch))  # one shuffle for all ranks
        for whole in order.split(batch):
            (gradient,) = torch.autograd.grad(loss_on(whole[rank::world]), weights)
            if not alone:
                dist.all_reduce(gradient)
                gradient /= world  # the mean over equal parts is the mean over the whole batch
            weights.data -= rate * gradient
            steps += 1
        losses.append(loss_on(slice(None)).item())
    return losses, steps


def main() -> None:
    """Train the base alone, then k times its batch on all ranks under each rule."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--k", type=int, default=4, help="the global batch is k times 24; a divisor of 48")
    parser.add_argument("--rule", choices=[*RULES, "all"], default="all", help="what happens to the learning rate")
    parser.add_argument("--epochs", type=int, default=4, help="passes over the 1152 samples")
    args = parser.parse_args()
    k, world = args.k, int(os.environ["WORLD_SIZE"])
    if k < 1 or SAMPLES // BASE_BATCH % k or args.epochs < 2:
        raise SystemExit("--k must be 1, 2, 3, 4, 6, 8, 12, 16, 24 or 48, and --epochs 2 or more.")
    if k * BASE_BATCH % world:
        raise SystemExit(f"A global batch of {k * BASE_BATCH} does not split evenly: take 1, 2, 3, 4, 6 or 8 ranks.")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=10))
    x, y = make_data(device)

    # 1. The base: one process, small batch. Gradient descent on a quadratic loss is stable up to 2 / its curvature.
    base, base_steps = train(x, y, BASE_BATCH, BASE_RATE, args.epochs, alone=True)
    limit = 2 / torch.linalg.eigvalsh(2 * x.T @ x / SAMPLES).max().item()
    for loss in base:
        print(f"loss (base): {loss:.4g}")
    print(f"steps (base): {base_steps}")
    print(f"global batch: {k * BASE_BATCH}")
    print(f"samples of each rank: {k * BASE_BATCH // world}")
    print(f"largest stable rate: {limit:.3f}")

    # 2. The same epochs with k times the batch, shared out over the ranks.
    early = min(args.epochs, 4)  # rules are compared here: much later all that are stable have arrived
    for rule in RULES if args.rule == "all" else [args.rule]:
        rate = BASE_RATE * RULES[rule](k)
        losses, steps = train(x, y, k * BASE_BATCH, rate, args.epochs, alone=False)
        single, _ = train(x, y, k * BASE_BATCH, rate, args.epochs, alone=True)
        for loss in losses:
            print(f"loss ({rule}): {loss:.4g}")
        print(f"steps ({rule}): {steps}")
        print(f"rate ({rule}): {rate:.3f}")
        print(f"outcome ({rule}): {'fine' if losses[-1] < losses[0] else 'DIVERGED'}")

        assert torch.allclose(torch.tensor(losses), torch.tensor(single), equal_nan=True), "X"
        assert steps * k == base_steps, "k times the batch makes 1/k of the steps in the same epochs"
