"""Checks that all gradients are averaged in one call.

torchrun --nproc-per-node 4 labs/flat_gradients/check.py flat_gradients.py --seed 7
"""

import sys
from pathlib import Path

import torch
from torch import nn

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, same

check = Check("average_gradients")
n, rank = check.world_size, check.rank

for _ in check.seeds():
    shapes = [(check.random.randrange(1, 6), 3), (4,), (), (2, 1, 3), (5,)]
    parameters = [nn.Parameter(torch.zeros(shape)) for shape in shapes]
    parameters.insert(2, nn.Parameter(torch.zeros(4), requires_grad=False))
    by_rank = [[torch.randn(parameter.shape) for parameter in parameters] for _ in range(n)]
    for parameter, gradient in zip(parameters, by_rank[rank], strict=True):
        parameter.grad = gradient.clone() if parameter.requires_grad else None
    parameters[0].grad = parameters[0].grad.t().contiguous().t()  # not contiguous
    held = [parameter.grad for parameter in parameters]

    check.delay()
    size = sum(gradient.nbytes for gradient in held if gradient is not None)
    with check.phase("average", bytes=size):
        check.learner.average_gradients(iter(parameters))
    for place, (parameter, before) in enumerate(zip(parameters, held, strict=True)):
        assert parameter.grad is before, "a gradient stays the same tensor, and a missing one stays missing"
        if before is not None:
            mean = sum(gradients[place] for gradients in by_rank) / n
            assert same(before, mean, tolerance=1e-5, what=f"the gradient of parameter {place}"), (
                "every gradient is the mean over all ranks"
            )

    for parameter in parameters:
        parameter.grad = None
    with check.phase("nothing"):
        check.learner.average_gradients(parameters)

check.end()
