"""Checks that the next layer is gathered while this one computes, and that no further layer is whole.

torchrun --nproc-per-node 4 labs/fsdp_prefetch/check.py fsdp_prefetch.py --seed 7
"""

import sys
from pathlib import Path
from typing import Any

import torch

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, LiveMemory, same

WIDTH = 24  # 1, 2, 3 and 4 divide it


class Memory(LiveMemory):
    """Counts live memory, and prints a line when the learner's code multiplies by a weight.

    The gradient of a weight does not count: it comes after the learner's code.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        multiplies = func in (torch.ops.aten.mm.default, torch.ops.aten.bmm.default)
        if multiplies and args[0].shape[-2] * args[1].shape[-1] < WIDTH * WIDTH:
            print("computing: a product", flush=True)
        return super().__torch_dispatch__(func, types, args, kwargs)


check = Check("ShardedLinear", "connect", layers=4)
n, rank, layers = check.world_size, check.rank, check.args.layers

for _ in check.seeds():
    weights = [(torch.randn(WIDTH, WIDTH) / WIDTH**0.5).requires_grad_() for _ in range(layers)]
    layer = weights[0].nbytes
    model = [check.learner.ShardedLinear(weight.detach().clone()) for weight in weights]
    check.learner.connect(model)
    shards = [each.shard for each in model]
    for shard in shards:
        shard.grad = torch.zeros_like(shard)

    samples = check.random.randrange(1, 3)
    small = 4 * samples * WIDTH * (2 * layers + 4)  # bytes of activations
    for step in range(2):
        batches = torch.randn(n, samples, WIDTH)
        mine, theirs = batches[rank].clone().requires_grad_(), batches.clone().requires_grad_()
        expected = theirs
        for weight in weights:
            expected = torch.tanh(expected @ weight.T)
        expected.square().sum().backward()

        check.delay(0.003)
        with check.phase("forward", layers=layers, layer=layer, small=small) as measured:
            with Memory(2 * layer + small) as memory:
                found = mine
                for each in model:
                    found = torch.tanh(each(found))
            measured["peak"] = memory.peak
        right = same(found, expected[rank], tolerance=1e-4, what="the output")
        assert right or step > 0, "the outputs are those of the whole layers"
        assert right, "in the second step, the outputs are those of the updated weights"
        check.delay(0.003)
        small += 2 * layer // n  # rows of a gradient, summed and divided
        with check.phase("backward", layers=layers, layer=layer, small=small) as measured:
            with Memory(3 * layer + small) as memory:
                found.square().sum().backward()
            measured["peak"] = memory.peak
        small -= 2 * layer // n
        for each_layer, (shard, weight) in enumerate(zip(shards, weights, strict=True)):
            rows = weight.grad.chunk(n)[rank] / n
            assert same(shard.grad, rows, tolerance=1e-4, what=f"the gradient of the shard of layer {each_layer}"), (
                "each rank has its rows of the mean gradient"
            )
        with torch.no_grad():
            for shard, weight in zip(shards, weights, strict=True):  # gradients keep adding up in the second step
                shard -= 0.1 * shard.grad
                weight -= 0.1 * weight.grad / n

check.end()
