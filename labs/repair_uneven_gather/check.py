"""Checks that predictions of ranks with different numbers of samples are gathered, whole and in order.

torchrun --nproc-per-node 4 labs/repair_uneven_gather/check.py repair_uneven_gather.py --seed 7
"""

import sys
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, same

check = Check("gather_predictions")
n, rank = check.world_size, check.rank

for _ in check.seeds():
    classes, most = check.random.randrange(2, 6), check.random.randrange(6, 10)
    cases = [
        [most] * n,  # all alike
        [most - (each % 3) for each in range(n)],  # nearly alike, the last batch is shorter
        [0 if each == n - 1 else 2 + each for each in range(n)],  # nothing on the last rank
    ]
    for samples, dtype in zip(cases, (torch.float32, torch.float64, torch.float32), strict=True):
        predictions = [torch.randint(-9, 9, (count, classes)).to(dtype) / 7 for count in samples]
        mine = predictions[rank].clone()
        check.delay()
        with check.phase("gather", row=predictions[0].itemsize * classes, longest=max(samples), samples=sum(samples)):
            found = check.learner.gather_predictions(mine)
        assert same(found, torch.cat(predictions), what="the result"), (
            "every rank holds all predictions in the order of ranks"
        )
        assert same(mine, predictions[rank], what="the input"), "the input stays as it was"

check.end()
