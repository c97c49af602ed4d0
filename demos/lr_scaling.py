"""Learning rate and batch size: larger batches mean fewer, longer steps.

    torchrun --nproc-per-node 4 demos/lr_scaling.py

The base is one process with batches of 24 samples. Then all ranks together train
for the same number of epochs with batches k times as large, and so in 1/k as
many steps, at three learning rates: the base's (same), that times the square
root of k (sqrt), and that times k (linear). `loss (same)` lags behind `loss
(base)`; `loss (linear)` follows it until k is too large. Only k matters, not the
number of ranks. The model is linear, so its curvature never changes, and warm-up
would not help here.

Try    --k 24                       one step replaces 24, and the linear rule diverges
       --k 16 --rule linear         the largest k at which the linear rule still works here
       --rule same --epochs 16      with k = 4, as many steps as the base takes in 4 epochs
"""

import argparse
import math
import os
from datetime import timedelta

import torch
import torch.distributed as dist

SAMPLES, FEATURES, BASE_BATCH, BASE_RATE = 1152, 8, 24, 0.05
RULES = {"same": lambda _: 1, "sqrt": math.sqrt, "linear": lambda k: k}  # what multiplies the learning rate


def train(data: tuple[torch.Tensor, ...], batch: int, rate: float, epochs: int, alone: bool) -> tuple[list, int]:
    """Return the losses on all samples, before training and after each epoch, and the number of steps."""
    x, y = data
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


def show(runs: dict[str, tuple[float, list[float], int]], limit: float, args: argparse.Namespace) -> None:
    """Print the base and the rules, one below the other."""
    k, (_, base, base_steps) = args.k, runs["base"]
    print(f"rate (largest stable): {limit:.3f}")
    for rule, (rate, _, _) in runs.items():
        print(f"rate ({rule}): {rate:.3f}")
    for rule, (_, _, steps) in runs.items():
        print(f"steps ({rule}): {steps}")
    print(f"loss (before any step): {base[0]:.4g}")
    for rule, (_, losses, _) in runs.items():
        for loss in losses:
            print(f"loss ({rule}): {loss:.4g}")
    if "same" in runs and args.epochs >= k > 1:
        print(f"loss (base after {base_steps // k} steps): {base[args.epochs // k]:.4g}")
    for rule, (_, losses, _) in runs.items():
        if rule != "base":
            end = f"{losses[-1] / base[-1]:.2f} x base" if losses[-1] < losses[0] else "DIVERGED"  # also if it is NaN
            print(f"final loss ({rule}): {end}")


def compare(rule: str, runs: dict, limit: float, data: tuple[torch.Tensor, ...], args: argparse.Namespace) -> None:
    """Compare what the ranks learned with one process, and with the base."""
    k, (_, base, base_steps), (rate, losses, steps) = args.k, runs["base"], runs[rule]
    single, _ = train(data, k * BASE_BATCH, rate, args.epochs, alone=True)
    assert torch.allclose(torch.tensor(losses), torch.tensor(single), equal_nan=True), (
        "ranks that share a batch get the same losses as one process with the whole batch"
    )
    assert steps * k == base_steps, "with batches k times as large, the same epochs take 1/k as many steps"

    early = min(args.epochs, 4)  # much later, all stable rules have converged
    if rule == "same" and k > 1:
        assert losses[early] > base[early], "at the same rate, fewer steps leave a higher loss"
    if rule == "sqrt" and k > 1:
        assert losses[early] > base[early], "for plain SGD, a factor of sqrt(k) is too small: the loss is higher"
    if rule == "linear" and rate < 0.8 * limit:
        assert math.isclose(losses[early], base[early], rel_tol=0.2), (
            "the linear rule follows the base: its loss is within 20% of the base's"
        )
    if rule == "linear" and rate > limit:
        assert not losses[-1] < losses[0], "above the largest stable rate, the linear rule ends no better than it began"


def make_data(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Make a linear problem, the same on all ranks; its flattest direction is 25 times flatter than its steepest."""
    seeded = torch.Generator().manual_seed(0)
    scale = torch.logspace(0, math.log10(0.2), FEATURES, dtype=torch.float64)
    x = torch.randn(SAMPLES, FEATURES, generator=seeded, dtype=torch.float64) * scale
    y = x @ (1 / scale) + 0.1 * torch.randn(SAMPLES, generator=seeded, dtype=torch.float64)
    return x.to(device), y.to(device)


def main() -> None:
    """Train the base alone, then k times its batch on all ranks under each rule."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--k", type=int, default=4, help="the global batch is k times 24 samples; k must divide 48")
    parser.add_argument("--rule", choices=[*RULES, "all"], default="all", help="how the learning rate is scaled")
    parser.add_argument("--epochs", type=int, default=4, help="passes over the 1152 samples")
    args = parser.parse_args()
    k, world = args.k, int(os.environ["WORLD_SIZE"])
    if k < 1 or SAMPLES // BASE_BATCH % k or args.epochs < 3:
        raise SystemExit("--k must be 1, 2, 3, 4, 6, 8, 12, 16, 24 or 48, and --epochs 3 or more.")
    if k * BASE_BATCH % world:
        raise SystemExit(f"A global batch of {k * BASE_BATCH} does not split evenly: use 1, 2, 3, 4, 6 or 8 ranks.")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=10))
    data = make_data(device)

    # The base: one process and small batches. On a quadratic loss gradient descent is stable up to 2 / curvature.
    base, base_steps = train(data, BASE_BATCH, BASE_RATE, args.epochs, alone=True)
    limit = 2 / torch.linalg.eigvalsh(2 * data[0].T @ data[0] / SAMPLES).max().item()
    print(f"setting: k = {k}, batches of {BASE_BATCH}, then of {k * BASE_BATCH}")
    print(f"local batch size: {k * BASE_BATCH // world} of {k * BASE_BATCH}")
    if int(os.environ["RANK"]) == 0:
        print(f"The base is one process with batches of {BASE_BATCH}; each rank runs it on its own.")

    # The same epochs with k times the batch, shared out over the ranks.
    rules = [args.rule] if args.rule != "all" else list(RULES) if k > 1 else ["same"]  # with k = 1 all rules agree
    runs = {"base": (BASE_RATE, base, base_steps)}
    for rule in rules:
        rate = BASE_RATE * RULES[rule](k)
        runs[rule] = rate, *train(data, k * BASE_BATCH, rate, args.epochs, alone=False)

    show(runs, limit, args)
    for rule in rules:
        compare(rule, runs, limit, data, args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
