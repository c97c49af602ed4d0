"""Checks an MLP whose weights and whose tokens are cut over the ranks against the whole MLP.

torchrun --nproc-per-node 4 labs/sequence_parallel_mlp/check.py sequence_parallel_mlp.py --seed 7
"""

import copy
import sys
from pathlib import Path

import torch
from torch import nn

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, LiveMemory, same

WIDTH = 16
check = Check("SequenceParallelMLP")
n, rank = check.world_size, check.rank

for _ in check.seeds():
    tokens, hidden = check.random.randrange(2, 5) * n, 2 * n
    norm, first, second = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, hidden), nn.Linear(hidden, WIDTH)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    parallel = check.learner.SequenceParallelMLP(copy.deepcopy(norm), first, second)
    x = torch.randn(tokens, WIDTH)
    theirs, ours = x.clone().requires_grad_(), x.chunk(n)[rank].clone().requires_grad_()
    whole, own = x.nbytes, ours.nbytes

    expected = theirs + second(torch.relu(first(norm(theirs))))
    expected.square().sum().backward()

    limit = 1.5 * whole + 1.5 * own + 32
    check.delay()
    with check.phase("forward", whole=whole, own=own) as measured:
        with LiveMemory() as memory:
            found = parallel(ours)
        measured["kept"] = memory.wait_below(limit)
    assert same(found, expected.chunk(n)[rank], tolerance=1e-4, what="the output"), (
        "each rank has the outputs of its own tokens"
    )
    check.delay()
    with check.phase("backward", whole=whole):
        found.square().sum().backward()
    assert same(ours.grad, theirs.grad.chunk(n)[rank], tolerance=1e-4, what="the gradient of the input"), (
        "each rank has the gradient of its own tokens"
    )
    with check.phase("synchronize", bytes=3 * 4 * WIDTH):
        parallel.synchronize()

    mine, close = slice(2 * rank, 2 * rank + 2), 1e-4
    assert same(parallel.columns.grad, first.weight.grad[mine], tolerance=close, what="`columns.grad`"), (
        "each rank has the gradient of its columns"
    )
    assert same(parallel.column_bias.grad, first.bias.grad[mine], tolerance=close, what="`column_bias.grad`"), (
        "each rank has the gradient of its columns"
    )
    assert same(parallel.rows.grad, second.weight.grad[:, mine], tolerance=close, what="`rows.grad`"), (
        "each rank has the gradient of its rows"
    )
    shared = {
        "norm.weight": (parallel.norm.weight, norm.weight),
        "norm.bias": (parallel.norm.bias, norm.bias),
        "bias": (parallel.bias, second.bias),
    }
    for name, (copied, original) in shared.items():
        assert same(copied.grad, original.grad, tolerance=close, what=f"`{name}.grad`"), (
            "after synchronize, norm and bias have the gradients of all tokens"
        )

check.end()
