"""Checks that gradients are clipped by their norm over all ranks.

torchrun --nproc-per-node 4 labs/global_norm_clipping/check.py global_norm_clipping.py --seed 7
"""

import sys
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, same

check = Check("clip_grad_norm")
n, rank = check.world_size, check.rank


def shard(rank: int, rows: int) -> list[torch.Tensor]:
    """Return the gradients of one rank: three tensors on rank 0, four on rank 1, and so on."""
    return [torch.randn(rows + place, 3) for place in range(rank + 2)] + [torch.randn(5)]


for _ in check.seeds():
    # Norms above the limit, below it, above it with no gradients on the last rank, and gradients that are all zero.
    for part, empty, zero in ((0.9, False, False), (1.5, False, False), (0.3, True, False), (1.0, False, True)):
        shards = [shard(each, check.random.randrange(1, 5)) for each in range(n)]
        if empty:
            shards[-1] = []
        if zero:
            shards = [[torch.zeros_like(gradient) for gradient in held] for held in shards]
        everything = torch.cat([gradient.flatten() for held in shards for gradient in held] or [torch.zeros(1)])
        total = everything.double().norm().item()
        max_norm = part * (total or 1.0)

        gradients = [gradient.clone() for gradient in shards[rank]]
        check.delay()
        with check.phase("clip"):
            norm = check.learner.clip_grad_norm(list(gradients), max_norm)
        norm = None if norm is None else torch.tensor(float(norm))
        assert same(norm, torch.tensor(total), tolerance=1e-4, what="the result"), (
            "the result is the norm of all gradients of all ranks"
        )
        for place, (gradient, before) in enumerate(zip(gradients, shards[rank], strict=True)):
            if total <= max_norm:
                assert same(gradient, before, what=f"gradient {place}"), (
                    "gradients whose norm is below the limit stay as they are"
                )
            else:
                clipped = before * (max_norm / total)
                assert same(gradient, clipped, tolerance=1e-4, what=f"gradient {place}", before=before), (
                    "every gradient is scaled by max_norm / norm, in place"
                )

check.end()
