"""Checks an optimizer whose gradients and momenta are sharded: its steps, its collectives, and its memory.

torchrun --nproc-per-node 4 labs/zero_2/check.py zero_2.py --seed 7
"""

import sys
from pathlib import Path

import torch
from torch import nn

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, LiveMemory, differs, same

RATE, MOMENTUM, WIDTH = 0.05, 0.9, 23  # 2, 3 and 4 do not divide it
check = Check("ZeroTwo", layers=4)
n, rank, layers = check.world_size, check.rank, check.args.layers

for _ in check.seeds():
    samples = check.random.randrange(1, 3)
    weights = [torch.randn(WIDTH, WIDTH) / WIDTH**0.5 for _ in range(layers)]
    parameters = [nn.Parameter(weight.clone()) for weight in weights]
    part = 4 * -(-(WIDTH**2) // n)  # bytes of a padded part
    padded, small = n * part, 4 * samples * WIDTH * (2 * layers + 4)  # a padded parameter, and all activations
    memory = LiveMemory()
    with memory:
        optimizer = check.learner.ZeroTwo(parameters, RATE)
    momenta = [torch.zeros(WIDTH, WIDTH) for _ in weights]
    for batches_per_step in (2, 1):
        sums = [torch.zeros(WIDTH, WIDTH) for _ in weights]
        for _batch in range(batches_per_step):
            batches = torch.randn(n, samples, WIDTH)
            whole = [weight.clone().requires_grad_() for weight in weights]
            x = batches
            for weight in whole:
                x = torch.tanh(x @ weight.T)
            x.square().sum().backward()
            sums = [each + weight.grad / n for each, weight in zip(sums, whole, strict=True)]

            x = batches[rank]
            check.delay(0.003)
            with check.phase("backward", layers=layers, padded=padded, part=part, small=small) as measured:
                before = memory.peak = memory.now
                memory.limit = before + 3 * padded + 3 * part + small
                with memory:
                    for parameter in parameters:
                        x = torch.tanh(x @ parameter.T)
                    loss = x.square().sum()
                    x = None
                    loss.backward()
                    loss = None
                measured["peak"] = memory.peak - before
                measured["kept"] = memory.wait_below(before) - before
            kept = [each for each, parameter in enumerate(parameters) if parameter.grad is not None]
            if kept:
                differs(f"parameter {kept[0]} still has its whole gradient")
            assert not kept, "after backward no parameter has a whole gradient"

        check.delay(0.003)
        with check.phase("step", layers=layers, padded=padded, part=part) as measured:
            before = memory.now
            with memory:
                optimizer.step()
            measured["kept"] = memory.wait_below(before) - before
        for each, momentum in enumerate(momenta):
            momentum.mul_(MOMENTUM).add_(sums[each])
            weights[each] = weights[each] - RATE * momentum
            assert same(parameters[each], weights[each], tolerance=1e-4, what=f"parameter {each}"), (
                "after a step all parameters are those of SGD"
            )

check.end()
