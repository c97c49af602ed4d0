"""DistributedSampler: which samples each rank gets, and which are dealt twice.

    torchrun --nproc-per-node 4 demos/sampler.py

The sampler puts the dataset in some order, makes its length a multiple of the
number of ranks, and deals it out like cards: rank r gets every N-th sample,
beginning with sample r. The ranks send each other nothing; they agree because
each of them computes the same order, with seed + epoch as the random seed.
In `in order`, look for samples that occur twice. Then look at the epochs: does
each one have a new order? The numbers are those of the samples, from 0.

Try    --drop-last           no sample is dealt twice, but some are left out
       --no-set-epoch        sampler.set_epoch is never called: the order never changes
       --samples 12          a dataset that divides evenly among 4 ranks
"""

import argparse
import math
import os
from collections import Counter
from datetime import timedelta
from itertools import pairwise

import torch
import torch.distributed as dist
from torch.utils.data import DistributedSampler

SEED = 0


def deal(sampler: DistributedSampler, device: torch.device) -> tuple[list[int], list[int]]:
    """Return the samples of this rank, and those of all ranks in the order of dealing."""
    mine = torch.tensor(list(sampler), dtype=torch.int64, device=device)
    hands = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(hands, mine)  # all hands are equally long: that is what padding is for
    return mine.tolist(), torch.stack(hands, dim=1).flatten().tolist()


def deal_in_order(args: argparse.Namespace, device: torch.device) -> tuple[list[int], list[int]]:
    """Deal once in order, to see the pattern; return the samples of this rank, and those that are not padding."""
    rank, world, samples, dataset = dist.get_rank(), dist.get_world_size(), args.samples, range(args.samples)
    in_order, dealt = deal(DistributedSampler(dataset, shuffle=False, drop_last=args.drop_last), device)
    real = [sample for place, sample in enumerate(in_order) if rank + place * world < samples]
    print(f"in order: {shown(in_order)}")
    print(f"in order (padding): {shown(in_order[len(real) :])}")
    each = samples // world if args.drop_last else math.ceil(samples / world)
    cards = [place % samples for place in range(each * world)]  # past the end it begins again with sample 0
    repeated, missing = Counter(dealt) - Counter(dataset), Counter(dataset) - Counter(dealt)
    print(f"in order (dealt twice): {shown(sorted(repeated.elements()))}")
    print(f"in order (left out): {shown(sorted(missing))}")
    assert in_order == cards[rank::world], "rank r holds every N-th sample, beginning with sample r"
    if args.drop_last:
        assert not repeated, "with drop_last no sample is dealt twice"
        assert missing.total() == samples % world, "drop_last leaves out the samples that do not divide evenly"
    else:
        assert not missing, "together the ranks hold every sample"
        assert repeated.total() == each * world - samples, "samples are repeated until the dataset divides evenly"
    return in_order, real


def deal_epochs(args: argparse.Namespace, device: torch.device) -> None:
    """Deal for each epoch of training. Only set_epoch tells the sampler that a new one has begun."""
    world, samples, dataset = dist.get_world_size(), args.samples, range(args.samples)
    sampler = DistributedSampler(dataset, shuffle=args.shuffle, seed=SEED, drop_last=args.drop_last)
    orders = []
    for epoch in range(args.epochs):
        if not args.no_set_epoch:
            sampler.set_epoch(epoch)
        mine, dealt = deal(sampler, device)
        orders.append(dealt)
        print(f"epoch {epoch}: {shown(mine)}")
        # One process's order: torch/utils/data/distributed.py seeds a generator with seed + epoch.
        seeded = torch.Generator().manual_seed(SEED + sampler.epoch)
        order = torch.randperm(samples, generator=seeded).tolist() if args.shuffle else list(dataset)
        cards = [order[place % samples] for place in range(len(mine) * world)]
        assert dealt == cards, "taken together, the ranks' shares form the order that one process would use"
    if args.shuffle and args.epochs > 1 and samples >= 8:  # two orders of fewer samples may agree by chance
        if args.no_set_epoch:
            assert all(order == orders[0] for order in orders), (
                "without set_epoch, every epoch has the order of the first"
            )
        else:
            assert all(a != b for a, b in pairwise(orders)), "set_epoch gives each epoch a new order"


def evaluate(in_order: list[int], real: list[int], args: argparse.Namespace, device: torch.device) -> None:
    """Show what a repeat does to an evaluation: let sample i score i points, and average over the ranks."""
    samples, uneven = args.samples, -args.samples % dist.get_world_size()
    truth = sum(range(samples)) / samples
    score = mean_over_ranks(in_order, device)
    print(f"mean score (truth): {truth:.3f}")
    print(f"mean score (in order): {score:.3f}")
    if args.drop_last and uneven:
        assert score < truth, "leaving out samples shifts the score: the last and best ones are not counted"
    elif uneven % samples:
        assert score < truth, "padding shifts the score: samples from the beginning count twice"
    if not args.drop_last:
        score = mean_over_ranks(real, device)
        print(f"mean score (no padding): {score:.3f}")
        assert math.isclose(score, truth), "without the padding, the ranks' mean score is the true mean"


def mean_over_ranks(scores: list[int], device: torch.device) -> float:
    """Return the mean of all ranks' scores: add up sums and counts, then divide once."""
    total = torch.tensor([sum(scores), len(scores)], dtype=torch.float64, device=device)
    dist.all_reduce(total)
    return (total[0] / total[1]).item()


def shown(samples: list[int]) -> str:
    """Format sample numbers, as many as fit in a column."""
    line = " ".join(map(str, samples[:8])) or "none"
    return f"{line} ..." if len(samples) > 8 else line


def main() -> None:
    """Deal out a dataset in order and shuffled, and count who got what."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=10, help="samples in the dataset")
    parser.add_argument("--epochs", type=int, default=3, help="number of epochs for which to deal samples")
    parser.add_argument("--drop-last", action="store_true", help="leave out leftover samples instead of padding")
    parser.add_argument("--no-set-epoch", action="store_true", help="never call sampler.set_epoch")
    parser.add_argument("--shuffle", action=argparse.BooleanOptionalAction, default=True, help="shuffle each epoch")
    args = parser.parse_args()
    world, samples = int(os.environ["WORLD_SIZE"]), args.samples
    if samples < (world if args.drop_last else 1) or args.epochs < 1:
        raise SystemExit(f"--epochs needs 1 or more, and --samples 1 or more ({world} or more with --drop-last).")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=10))

    print(f"dataset: {samples} samples; in the evaluation, sample i scores i points")
    in_order, real = deal_in_order(args, device)
    deal_epochs(args, device)
    evaluate(in_order, real, args, device)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
