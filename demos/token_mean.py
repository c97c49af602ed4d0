"""Mean over tokens: a mean of the ranks' means weights tokens unequally.

    torchrun --nproc-per-node 4 demos/token_mean.py

Each rank has one sequence of a language model's batch, filled up with padding
that does not count. The usual loss is a mean over the rank's own tokens, and
DDP weights the gradients of all ranks equally, so a token in a short sequence
counts for more than a token in a long one. Logging the mean of the ranks'
losses has the same flaw. Look at `token weight`, where 1 is an equal share,
and compare the two losses that you could log with the loss of one process.

Try    --tokens 8              sequences of equal length: the usual loss is right
       --tokens 12 1           one token counts for as much as 12 others
       --micro-batches 3       gradient accumulation averages means, too
"""

import argparse
import os
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.nn  # imported after init_process_group, it would keep the group alive (torch 2.13)
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

VOCABULARY, LENGTH, PADDING = 16, 12, -100  # -100 is what cross_entropy ignores unless told otherwise


def log_losses(sums: list[float], counts: list[int], device: torch.device) -> tuple[float, float, float]:
    """Return the mean of the ranks' means, which is wrong, the mean over all tokens, and the number of tokens."""
    mine, micro, world = sum(counts), len(counts), dist.get_world_size()
    means = sum(total / count for total, count in zip(sums, counts, strict=True)) / micro
    mean_of_means = sum_over_ranks([means], device)[0] / world
    # Means over different numbers of tokens cannot be averaged; sums and counts can be added.
    all_sums, all_tokens = sum_over_ranks([sum(sums), mine], device)
    print(f"local loss (mean of {'tokens' if micro == 1 else 'means'}): {means:.3f}")
    return mean_of_means, all_sums / all_tokens, all_tokens


def gradient(way: str, ddp: DistributedDataParallel, batch: list[tuple], all_tokens: float) -> torch.Tensor:
    """Return the gradient that DDP leaves, which is the mean over ranks."""
    world, micro = dist.get_world_size(), len(batch)
    ddp.zero_grad()
    for inputs, targets, count in batch:
        # How a rank scales its sum of losses. By tokens: all ranks' tokens must be counted before the first backward,
        # in an all-reduce of its own. Times world, since DDP is going to divide by it.
        scale = 1 / (count * micro) if way == "means" else world / all_tokens
        loss = cross_entropy(ddp(inputs), targets, reduction="sum") * scale
        loss.backward()
    return ddp.module.weight.grad.clone()


def sum_over_ranks(numbers: list[float], device: torch.device) -> list[float]:
    """Add up each of the numbers over all ranks."""
    total = torch.tensor(numbers, dtype=torch.float64, device=device)
    dist.all_reduce(total)
    return total.tolist()


def main() -> None:
    """Compute loss and gradient both ways, and compare with one process that has all the tokens."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--tokens", type=int, nargs="+", default=[12, 6, 3, 1], help="tokens in each sequence; the list repeats"
    )
    parser.add_argument("--micro-batches", type=int, default=1, help="sequences per rank, one after the other")
    args = parser.parse_args()
    if not 1 <= min(args.tokens) <= max(args.tokens) <= LENGTH or args.micro_batches < 1:
        raise SystemExit(f"--tokens may be 1 to {LENGTH} each, and --micro-batches 1 or more.")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=10))
    rank, world, micro = dist.get_rank(), dist.get_world_size(), args.micro_batches

    # A model that predicts the token after each token: it has learned to count up. It cannot predict the first
    # two tokens of a text, so short texts have high losses. Each rank trains on `own`; the rest is for comparison.
    torch.manual_seed(0)
    model = torch.nn.Embedding.from_pretrained(4 * torch.eye(VOCABULARY).roll(1, 1), freeze=False).to(device)
    inputs, targets = torch.randint(VOCABULARY, (2, world * micro, LENGTH)).to(device)
    targets[:, 2:] = (inputs[:, 2:] + 1) % VOCABULARY
    counts = [args.tokens[sequence % len(args.tokens)] for sequence in range(world * micro)]
    for target, count in zip(targets, counts, strict=True):
        target[count:] = PADDING
    own = range(rank * micro, (rank + 1) * micro)
    own_counts = [counts[each] for each in own]
    print(f"tokens: {' '.join(map(str, own_counts))}")

    # One process with the whole batch: a mean over all tokens.
    truth = cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    (whole,) = torch.autograd.grad(truth, model.weight)

    sums = [cross_entropy(model(inputs[each]), targets[each], reduction="sum").item() for each in own]
    mean_of_means, mean_over_tokens, all_tokens = log_losses(sums, own_counts, device)
    print(f"loss (mean of means): {mean_of_means:.3f}")
    print(f"loss (sums / counts): {mean_over_tokens:.3f}")
    print(f"loss (one process): {truth.item():.3f}")

    ddp = DistributedDataParallel(model)
    batch = [(inputs[each], targets[each], counts[each]) for each in own]
    off = {way: gradient(way, ddp, batch, all_tokens) - whole for way in ("means", "tokens")}
    off = {way: (each.norm() / whole.norm()).item() for way, each in off.items()}
    shares = [all_tokens / (world * micro * counts[each]) for each in own]  # 1 if all tokens counted equally
    print(f"token weight (1 is fair): {' '.join(f'{share:.2f}' for share in shares)}")
    print(f"gradient error (means): {off['means']:.1%}")
    print(f"gradient error (tokens): {off['tokens']:.1%}")
    if rank == 0:
        print("Gradient error: the distance from one process's gradient, in % of that gradient's norm.")

    assert abs(mean_over_tokens - truth.item()) < 1e-5, (
        "all ranks' summed losses, divided once by the number of all tokens, equal the loss of one process"
    )
    assert off["tokens"] < 1e-5, "with loss sums divided by the total token count, DDP leaves one process's gradient"
    if len(set(counts)) == 1:
        assert abs(mean_of_means - truth.item()) < 1e-5, (
            "if every sequence has the same number of tokens, the mean of means is right too"
        )
        assert off["means"] < 1e-5, (
            "if every sequence has the same number of tokens, the usual mean loss gives the right gradient"
        )
    else:
        assert abs(mean_of_means - truth.item()) > 1e-3, "the mean of the ranks' means is not the mean over all tokens"
        assert off["means"] > 0.01, "with the usual mean losses, DDP's gradient is not that of one process"

    del ddp  # before the group is destroyed: DDP still refers to it
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
