"""Checks data-parallel training against one process that trains on the batches of all ranks.

torchrun --nproc-per-node 4 labs/repair_silent_replicas/check.py repair_silent_replicas.py --seed 7
"""

import copy
import sys
from pathlib import Path

import torch
from torch import nn

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, same

RATE = 0.05
check = Check("train")
n, rank = check.world_size, check.rank

for _ in check.seeds():
    steps = check.random.randrange(3, 6)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    reference = copy.deepcopy(model)
    inputs, answers = torch.randn(steps, n, 5, 4), torch.randn(steps, n, 5, 2)

    plain = torch.optim.SGD(reference.parameters(), lr=RATE)
    for step in range(steps):
        losses = [nn.functional.mse_loss(reference(inputs[step, each]), answers[step, each]) for each in range(n)]
        plain.zero_grad()
        (sum(losses) / n).backward()
        plain.step()

    mine = [(inputs[step, rank].clone(), answers[step, rank].clone()) for step in range(steps)]
    size = sum(parameter.nbytes for parameter in model.parameters())
    check.delay()
    with check.phase("training", steps=steps, bytes=size):
        trained = check.learner.train(model, mine, RATE)
    assert trained is model, "train returns the model that it got"
    for (name, ours), theirs in zip(model.named_parameters(), reference.parameters(), strict=True):
        assert same(ours, theirs, tolerance=1e-4, what=f"`{name}`"), (
            "the weights are those of one process that has all batches"
        )

check.end()
