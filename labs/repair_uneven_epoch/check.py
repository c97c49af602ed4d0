"""Checks an epoch with uneven batches against one process that computes every step.

torchrun --nproc-per-node 4 labs/repair_uneven_epoch/check.py repair_uneven_epoch.py --seed 7
"""

import copy
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, same

RATE = 0.05
check = Check("train_epoch")
n, rank = check.world_size, check.rank

for _ in check.seeds():
    few = check.random.randrange(2, 4)
    counts = [few + each % 3 for each in range(n)]  # rank 0 has the fewest batches
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    reference = copy.deepcopy(model)
    inputs, answers = torch.randn(max(counts), n, 6, 3), torch.randn(max(counts), n, 6, 1)

    plain = torch.optim.SGD(reference.parameters(), lr=RATE)
    for step in range(max(counts)):
        active = [each for each in range(n) if step < counts[each]]
        plain.zero_grad()
        losses = [nn.functional.mse_loss(reference(inputs[step, each]), answers[step, each]) for each in active]
        (sum(losses) / n).backward()
        plain.step()

    mine = [(inputs[step, rank].clone(), answers[step, rank].clone()) for step in range(counts[rank])]
    check.delay()
    with check.phase("epoch", steps=max(counts)):
        used = check.learner.train_epoch(model, mine, RATE)
    assert same(used, counts[rank], what="batches used"), "every rank uses all of its batches"
    dist.barrier()  # report a rank that left batches out rather than weights, which differ on all ranks
    for (name, ours), theirs in zip(model.named_parameters(), reference.parameters(), strict=True):
        assert same(ours, theirs, tolerance=1e-4, what=f"`{name}`"), (
            "all ranks end with the weights of one process that saw every batch"
        )

check.end()
