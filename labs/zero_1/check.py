"""Checks a sharded AdamW: the same steps as torch's, with 1/n of the optimizer state.

torchrun --nproc-per-node 4 labs/zero_1/check.py zero_1.py --seed 7
"""

import copy
import sys
from pathlib import Path

import torch
from torch import nn

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, LiveMemory, same

RATE = 0.01
check = Check("ZeroAdam")
n, rank = check.world_size, check.rank

for _ in check.seeds():
    wide = check.random.randrange(3, 9)
    model = nn.Sequential(nn.Linear(4, wide), nn.Tanh(), nn.Linear(wide, 3))
    reference = copy.deepcopy(model)
    parameters = list(model.parameters())
    total = sum(parameter.numel() for parameter in parameters)
    optimizer = check.learner.ZeroAdam(parameters, RATE)
    plain = torch.optim.AdamW(reference.parameters(), lr=RATE)

    kept = 0  # bytes that the steps made and that are still there
    for _step in range(3):
        gradients = [torch.randn(parameter.shape) for parameter in parameters]
        for parameter, expected, gradient in zip(parameters, reference.parameters(), gradients, strict=True):
            parameter.grad, expected.grad = gradient.clone(), gradient.clone()
        plain.step()
        check.delay()
        memory = LiveMemory()
        padded = 4 * (total + -total % n)
        with check.phase("step", padded=padded) as measured:
            with memory:
                optimizer.step()
            kept += memory.wait_below(2 * padded / n + 64 - kept)
            measured["kept"] = kept
        for ours, theirs in zip(parameters, reference.parameters(), strict=True):
            assert same(ours, theirs, tolerance=1e-5), "after each step all parameters are those of torch's AdamW"
        for ours, gradient in zip(parameters, gradients, strict=True):
            assert same(ours.grad, gradient), "the gradients stay as they were"

check.end()
