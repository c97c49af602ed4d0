"""A sampler for data-parallel training that neither repeats a sample nor
leaves one out.
"""

import torch
import torch.distributed as dist


def epoch_batches(
    samples: int,
    batch_size: int,
    *,
    seed: int,
    epoch: int,
) -> list[list[int]]:
    """Return the batches of this rank in one epoch: a list of sample numbers
    for each step.

    Over all ranks and steps each of the numbers 0 to `samples - 1` comes
    exactly once. All ranks have the same number of steps, the smallest that is
    possible with at most `batch_size` samples in a batch. The batches of a
    step differ by at most one sample; so some may be empty in the last step.
    The order is random; `seed` and `epoch` decide it.
    """
    rank, n = dist.get_rank(), dist.get_world_size()

    # lab: write shuffle all samples in the same way on every rank, and take this rank's share of each step
    generator = torch.Generator()
    generator.manual_seed(seed + epoch)
    order = torch.randperm(samples, generator=generator).tolist()
    together = n * batch_size  # samples that all ranks take in one step
    return [order[start : start + together][rank::n] for start in range(0, samples, together)]
    # lab: end
