"""Checks a two-layer network that is cut over the ranks against the whole network.

torchrun --nproc-per-node 4 labs/tensor_parallel_mlp/check.py tensor_parallel_mlp.py --seed 7
"""

import sys
from pathlib import Path

import torch
from torch import nn

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, same

check = Check("ParallelMLP", "Enter", "Leave")
n, rank = check.world_size, check.rank

for _ in check.seeds():
    samples, width, hidden = check.random.randrange(2, 6), 4, 3 * n
    first, second = nn.Linear(width, hidden), nn.Linear(hidden, width)
    parallel = check.learner.ParallelMLP(first, second)
    x = torch.randn(samples, width)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()

    expected = second(torch.relu(first(theirs)))
    expected.square().sum().backward()

    check.delay()
    with check.phase("forward", bytes=x.nbytes):
        found = parallel(ours)
    assert same(found, expected, tolerance=1e-4, what="the output"), "the outputs are those of the whole network"
    check.delay()
    with check.phase("backward", bytes=x.nbytes):
        found.square().sum().backward()
    assert same(ours.grad, theirs.grad, tolerance=1e-4, what="the gradient of the input"), (
        "the gradient of the input is that of the whole network"
    )

    mine = slice(3 * rank, 3 * rank + 3)
    columns, rows, close = first.weight.grad[mine], second.weight.grad[:, mine], 1e-4
    assert same(parallel.columns.grad, columns, tolerance=close, what="`columns.grad`"), (
        "each rank has the gradient of its columns"
    )
    assert same(parallel.column_bias.grad, first.bias.grad[mine], tolerance=close, what="`column_bias.grad`"), (
        "each rank has the gradient of its columns"
    )
    assert same(parallel.rows.grad, rows, tolerance=close, what="`rows.grad`"), "each rank has the gradient of its rows"
    assert same(parallel.bias.grad, second.bias.grad, tolerance=close, what="`bias.grad`"), (
        "the gradient of the bias is that of the whole network"
    )

    partial = check.tensor(samples, width)  # autograd may need what these functions are given
    given = partial.clone()
    check.learner.Leave.apply(given)
    assert same(given, partial, what="its input"), "Leave.forward reduces a clone: its input stays as it was"
    entered = check.learner.Enter.apply(x.clone().requires_grad_())
    given = partial.clone()
    entered.backward(given)
    assert same(given, partial, what="its input"), (
        "Enter.backward reduces a clone: the gradient that it gets stays as it was"
    )

check.end()
