"""Checks ring attention against attention over the whole sequence.

torchrun --nproc-per-node 4 labs/ring_attention/check.py ring_attention.py --seed 7
"""

import sys
from pathlib import Path
from typing import Any

import torch

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, LiveMemory, same

POSITIONS, WIDTH = 32, 32


class Memory(LiveMemory):
    """Counts live memory, and prints a line when the learner's code computes."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.ops.aten.mm.default, torch.ops.aten.bmm.default, torch.ops.aten.exp.default):
            print(f"computing: {func}", flush=True)
        return super().__torch_dispatch__(func, types, args, kwargs)


check = Check("ring_attention")
n, rank = check.world_size, check.rank

for _ in check.seeds():
    for scale in (1.0, 100.0):  # exp(100) is too large for a float
        queries = scale * torch.randn(n, check.random.randrange(1, 3), WIDTH)
        keys, values = torch.randn(2, n, POSITIONS, WIDTH)
        scores = queries[rank] @ keys.flatten(0, 1).T / WIDTH**0.5
        expected = scores.softmax(dim=1) @ values.flatten(0, 1)

        mine = [queries[rank].clone(), keys[rank].clone(), values[rank].clone()]
        block = mine[1].nbytes + mine[2].nbytes
        check.delay(0.003)
        with check.phase("attention", block=block) as measured:
            with Memory() as memory:
                found = check.learner.ring_attention(*mine)
            measured["peak"] = memory.peak
        assert same(found, expected, tolerance=1e-4, what="the result"), (
            "each rank has the attention of its queries to the whole sequence"
        )
        given = {"queries": queries, "keys": keys, "values": values}
        for ours, (name, before) in zip(mine, given.items(), strict=True):
            assert same(ours, before[rank], what=f"`{name}`"), "queries, keys and values stay as they were"

check.end()
