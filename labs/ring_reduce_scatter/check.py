"""Checks a ring reduce-scatter: each rank's chunk of the sum, and what was sent for it.

torchrun --nproc-per-node 4 labs/ring_reduce_scatter/check.py ring_reduce_scatter.py --seed 7
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, same

check = Check("reduce_scatter")
n, rank = check.world_size, check.rank

for _ in check.seeds():
    length = check.random.randrange(3, 20)
    for lengths in ([length] * n, [length + each % 3 for each in range(n)]):
        by_chunk = [check.tensors(each) for each in lengths]  # by chunk and rank
        chunks = [ranks[rank].clone() for ranks in by_chunk]
        check.delay()
        with check.phase("reduce-scatter", bytes=sum(4 * each for each in lengths), chunk=4 * max(lengths)):
            mine = check.learner.reduce_scatter(chunks)
        assert same(mine, sum(by_chunk[rank]), what="the result", before=by_chunk[rank][rank]), (
            "each rank holds the sum of its chunk over all ranks"
        )
        for place, (chunk, ranks) in enumerate(zip(chunks, by_chunk, strict=True)):
            assert same(chunk, ranks[rank], what=f"chunk {place}"), "the chunks of the input stay as they were"

check.end()
