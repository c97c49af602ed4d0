"""Checks that the ranks divide the samples of an epoch with none left out, none repeated, and equal step counts.

torchrun --nproc-per-node 4 labs/uneven_sampler/check.py uneven_sampler.py --seed 7
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, differs

check = Check("epoch_batches")
n = check.world_size


def batches(samples: int, batch_size: int, seed: int, epoch: int) -> list[list[int]]:
    """Return this rank's batches as the learner's code divides them, as plain numbers."""
    check.delay(0.003)
    with check.phase("epoch"):
        mine = check.learner.epoch_batches(samples, batch_size, seed=seed, epoch=epoch)
    return [[int(sample) for sample in batch] for batch in mine]


def of_all_ranks(mine: list[list[int]]) -> list[list[list[int]]]:
    everyone: list[list[list[int]]] = [[] for _ in range(n)]
    dist.all_gather_object(everyone, mine)
    return everyone


for seed in check.seeds():
    size = check.random.randrange(2, 5)
    # Full steps only, then a last step with too few, with one sample for all ranks, and fewer samples than ranks.
    for samples in (3 * n * size, 3 * n * size + n + n // 2, 2 * n * size + 1, max(1, n - 1)):
        dice = torch.get_rng_state()
        mine = batches(samples, size, seed, 0)
        assert torch.equal(torch.get_rng_state(), dice), "torch's global random numbers stay as they were"
        everyone = of_all_ranks(mine)
        steps = -(-samples // (n * size))
        taken_steps = [len(theirs) for theirs in everyone]
        if set(taken_steps) != {steps}:
            differs(
                f"{samples} samples in batches of {size}: the ranks take {taken_steps} steps, expected {steps} each"
            )
        assert set(taken_steps) == {steps}, "every rank takes the same, smallest possible number of steps"
        for at, batch in enumerate(mine):
            sizes = [len(theirs[at]) for theirs in everyone]
            fine = max(sizes) - min(sizes) <= 1 and len(batch) <= size
            if not fine:
                differs(f"the batches of step {at} have {sizes} samples, and batch_size is {size}")
            assert fine, "the batches of a step differ by at most one sample, and none exceeds batch_size"
            full = len(batch) == size or at == steps - 1
            if not full:
                differs(
                    f"the batches of step {at} of {steps} have {sizes} samples: fill them with {size} each, batch_size"
                )
            assert full, "only the last step is short"
        taken = [sample for theirs in everyone for batch in theirs for sample in batch]
        twice = [sample for sample in range(samples) if taken.count(sample) > 1]
        never = [sample for sample in range(samples) if sample not in taken]
        exactly_once = not twice and not never
        if not exactly_once:
            differs(f"of {samples} samples, {twice[:9]} come more than once and {never[:9]} never")
        assert exactly_once, "every sample comes exactly once in an epoch"

    samples = 5 * n * size + 1
    first = of_all_ranks(batches(samples, size, seed, 3))
    torch.rand(7)
    again = of_all_ranks(batches(samples, size, seed, 3)) == first
    if not again:
        differs(f"a second call with seed {seed} and epoch 3 gives a different order than the first")
    assert again, "seed and epoch alone decide the order"
    for other_seed, other_epoch in ((seed, 4), (seed + 10, 3)):
        changed = of_all_ranks(batches(samples, size, other_seed, other_epoch)) != first
        if not changed:
            differs(f"seed {other_seed}, epoch {other_epoch} gives the order of seed {seed}, epoch 3")
        assert changed, "a different epoch, or a different seed, gives a different order"

check.end()
