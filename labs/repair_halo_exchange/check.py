"""Checks the exchange between neighbors against one process that holds the whole rod.

torchrun --nproc-per-node 4 labs/repair_halo_exchange/check.py repair_halo_exchange.py --seed 7
"""

import sys
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, same

check = Check("smooth")
n, rank = check.world_size, check.rank

for _ in check.seeds():
    sizes = [check.random.randrange(2, 7) for _ in range(n)]
    steps = check.random.randrange(3, 6)
    rod = torch.randn(sum(sizes))
    piece = rod.split(sizes)[rank].clone()

    for _ in range(steps):
        inner = (rod[:-2] + rod[1:-1] + rod[2:]) / 3
        rod = torch.cat([rod[:1], inner, rod[-1:]])

    neighbors = (rank > 0) + (rank < n - 1)
    check.delay()
    with check.phase("smoothing", steps=steps, neighbors=neighbors):
        check.learner.smooth(piece, steps)
    assert same(piece, rod.split(sizes)[rank], tolerance=1e-5, what="the piece"), (
        "each rank holds its piece of the smoothed rod"
    )

check.end()
