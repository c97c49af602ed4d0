"""Checks layers that are sharded by rows: values, collectives, and the memory they take.

torchrun --nproc-per-node 4 labs/fsdp_by_hand/check.py fsdp_by_hand.py --seed 7
"""

import sys
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, LiveMemory, differs, same

WIDTH = 24  # 1, 2, 3 and 4 divide it
check = Check("ShardedLinear", layers=4)
n, rank, layers = check.world_size, check.rank, check.args.layers

for _ in check.seeds():
    weights = [(torch.randn(WIDTH, WIDTH) / WIDTH**0.5).requires_grad_() for _ in range(layers)]
    layer = weights[0].nbytes
    memory = LiveMemory()
    with memory:
        copies = [weight.detach().clone() for weight in weights]
    with check.phase("build", layers=layers, layer=layer) as measured:
        with memory:
            model = [check.learner.ShardedLinear(copy) for copy in copies]
        del copies
        measured["kept"] = memory.wait_below(layers * layer / n)
    shards = [each.shard for each in model]
    shapes = [tuple(shard.shape) for shard in shards]
    assert same(shapes, [(WIDTH // n, WIDTH)] * layers, what="shapes of the shards"), "a shard is 1/n of the rows"
    for shard in shards:
        trains = shard.requires_grad and shard.is_leaf
        if not trains:
            differs("shard.grad is None after backward, since the shard is a plain tensor: make it an nn.Parameter")
        assert trains, "autograd computes a gradient for each shard"
        shard.grad = torch.zeros_like(shard)

    samples = check.random.randrange(1, 3)
    activations = 4 * samples * WIDTH * (2 * layers + 4)
    for step in range(2):
        batches = torch.randn(n, samples, WIDTH)
        mine, theirs = batches[rank].clone().requires_grad_(), batches.clone().requires_grad_()
        expected = theirs
        for weight in weights:
            expected = torch.tanh(expected @ weight.T)
        expected.square().sum().backward()

        check.delay(0.003)
        with check.phase("step", layers=layers, layer=layer, activations=activations) as measured:
            with LiveMemory(2 * layer + 2 * layer / n + activations) as memory:
                found = mine
                for each in model:
                    found = torch.tanh(each(found))
                found.square().sum().backward()
            measured["peak"] = memory.peak
        right = same(found, expected[rank], tolerance=1e-4, what="the output")
        assert right or step > 0, "the outputs are those of the whole layers"
        assert right, "in the second step, the outputs are those of the updated weights"
        assert same(mine.grad, theirs.grad[rank], tolerance=1e-4, what="the gradient of the input"), (
            "the gradient of the input is that of whole layers"
        )
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
