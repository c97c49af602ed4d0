"""Checks a ring all-gather: the tensors of all ranks in order, and what was sent for them.

torchrun --nproc-per-node 4 labs/ring_all_gather/check.py ring_all_gather.py --seed 7
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, same

check = Check("all_gather")
n, rank = check.world_size, check.rank

for _ in check.seeds():
    for shape in ((check.random.randrange(1, 30),), (3, check.random.randrange(1, 8))):
        inputs = check.tensors(*shape)
        mine = inputs[rank].clone()
        check.delay()
        with check.phase("all-gather", bytes=mine.nbytes):
            parts = check.learner.all_gather(mine)
        assert same(len(parts), n, what="tensors in the result"), "the result has one tensor per rank"
        for source, (found, expected) in enumerate(zip(parts, inputs, strict=True)):
            assert same(found, expected, what=f"tensor {source} of the result"), (
                "the tensors of all ranks come in the order of ranks"
            )
        for part in parts:
            part.zero_()  # the result belongs to the caller
        assert same(mine, inputs[rank], what="`mine`"), (
            "the input keeps its values when the result is overwritten: return a copy"
        )

check.end()
