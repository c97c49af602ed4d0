"""Balance without a loss: a bias for each expert steers which experts are chosen, and leaves the gates alone.

    torchrun --nproc-per-node 4 demos/moe_balance.py

A router scores each token for eight experts and takes the best two. Some
experts are too popular, and not the same ones on every rank. After each step an
expert that had more than the mean load loses a little of its bias, and one that
had less gains the same. The load is summed over all ranks first. Compare
`max/mean load (start)` with `max/mean load (end)`, and look at `max bias gap`:
the largest difference between the biases of two ranks.

Try    --local-counts     each rank steers by its own load: the biases drift apart
       --speed 0.2        large steps: the load swings
       --speed 0          no balancing
"""

import argparse
import os
from datetime import timedelta

import torch
import torch.distributed as dist

EXPERTS, TOP, TOKENS, STEPS = 8, 2, 128, 100  # TOKENS of each rank in a step


def choose(scores: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the chosen experts and the gates, both (tokens, TOP)."""
    chosen = (scores + bias).topk(TOP, dim=1).indices  # the bias takes part in the choice ...
    gates = scores.gather(1, chosen)  # ... and not in the weight that the expert's result gets
    return chosen, gates / gates.sum(dim=1, keepdim=True)


def update(bias: torch.Tensor, load: torch.Tensor, speed: float) -> None:
    """Move each bias by `speed` towards the mean load: only the sign of the difference counts."""
    step = speed * torch.sign(load.mean() - load)
    bias += step - step.mean()


def over_ranks(x: torch.Tensor) -> torch.Tensor:
    """Return the sum of `x` over all ranks."""
    total = x.clone()
    dist.all_reduce(total)
    return total


def train(args: argparse.Namespace, device: torch.device) -> tuple[list[float], torch.Tensor, float]:
    """Route for STEPS steps; return the largest load over the mean in each, the bias, and the gates' difference."""
    rank = dist.get_rank()
    draw = torch.Generator().manual_seed(rank)
    taste = torch.linspace(1, -1, EXPERTS)  # what the router likes everywhere,
    taste[rank % EXPERTS] += 1.0  # and what the data of this rank ask for
    bias, peaks, apart = torch.zeros(EXPERTS, device=device), [], 0.0
    for _ in range(STEPS):
        scores = torch.sigmoid(torch.randn(TOKENS, EXPERTS, generator=draw) + taste).to(device)
        chosen, gates = choose(scores, bias)
        mine = torch.bincount(chosen.flatten(), minlength=EXPERTS).float()
        load = over_ranks(mine)
        peaks.append((load.max() / load.mean()).item())
        update(bias, mine if args.local_counts else load, args.speed)
        unbiased = scores.gather(1, chosen)
        apart = max(apart, (gates - unbiased / unbiased.sum(dim=1, keepdim=True)).abs().max().item())
    return peaks, bias, apart


def main() -> None:
    """Balance the experts, and compare the ranks' biases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--speed", type=float, default=0.02, help="how far a bias moves in a step")
    parser.add_argument("--local-counts", action="store_true", help="do not sum the load over the ranks")
    args = parser.parse_args()
    world = int(os.environ["WORLD_SIZE"])
    if args.speed < 0:
        raise SystemExit("--speed needs a number that is not negative: 0 means no balancing.")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=10))

    peaks, bias, gates_apart = train(args, device)
    start, end = sum(peaks[:5]) / 5, sum(peaks[-20:]) / 20
    biases = [torch.empty_like(bias) for _ in range(world)]
    dist.all_gather(biases, bias)
    spread = torch.stack(biases)
    apart = (spread.max(dim=0).values - spread.min(dim=0).values).max().item()
    print(f"max/mean load (start): {start:.2f}")
    print(f"max/mean load (end): {end:.2f}")
    print(f"bias of expert 0: {bias[0].item():.2f}")
    print(f"max bias gap: {apart:.2f}")

    assert gates_apart < 1e-6, "the gates are those of the scores without the bias"
    if args.speed == 0.02 and not args.local_counts:
        assert end < 1.5, "after 100 steps the busiest expert is near the mean"
    if args.local_counts:
        assert world == 1 or apart > 0.05, "steered by its own load, each rank has a different bias"
    else:
        assert apart == 0, "steered by the sum of all loads, every rank has the same bias"
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
