"""Checks a training loop that reports the mean loss of all ranks, against one process that has all batches.

torchrun --nproc-per-node 4 labs/repair_logged_loss/check.py repair_logged_loss.py --seed 7
"""

import sys
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, same

check = Check("train")
n, rank = check.world_size, check.rank

for _ in check.seeds():
    width, steps, every = 3, check.random.randrange(4, 8), check.random.choice((1, 2, 3))
    batches = [check.tensors(5, width) for _ in range(steps)]  # by step and rank
    start = torch.randn(width)

    expected, plain = [], start.clone()
    for step in range(steps):
        losses = [((plain - batch) ** 2).mean() for batch in batches[step]]
        if step % every == 0:
            expected.append(sum(losses).item() / n)
        plain -= 0.1 * sum(2 * (plain - batch).mean(dim=0) for batch in batches[step]) / n

    weight = start.clone()
    check.delay()
    with check.phase("training", steps=steps, reports=len(expected)):
        reported = check.learner.train(weight, [batch[rank].clone() for batch in batches], every)
    assert same(weight, plain, tolerance=1e-4, what="`weight`", before=start), (
        "the weights are those of one process that has all batches"
    )
    if rank == 0:
        assert same(len(reported), len(expected), what="losses reported"), (
            "rank 0 reports a loss in every step that is due"
        )
        assert same(torch.tensor(reported), torch.tensor(expected), tolerance=1e-4, what="the losses"), (
            "rank 0 reports the mean loss of all ranks"
        )
    else:
        assert same(reported, [], what="losses reported"), "only rank 0 reports losses"

check.end()
