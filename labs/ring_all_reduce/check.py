"""Checks a ring all-reduce: the sums, and what each rank sends for them.

torchrun --nproc-per-node 4 labs/ring_all_reduce/check.py ring_all_reduce.py --seed 7
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, same

check = Check("all_reduce")
n = check.world_size

for _ in check.seeds():
    # Sizes that n divides, that it does not divide, and fewer numbers than ranks.
    for size in (4 * n, check.random.randrange(5, 40) * n + n // 2, max(1, n - 1)):
        inputs = check.tensors(size)
        x = inputs[check.rank].clone()
        largest = -(-size // n) * x.element_size()  # bytes of the longest chunk
        check.delay()
        with check.phase("all-reduce", bytes=x.nbytes, chunk=largest):
            result = check.learner.all_reduce(x)
        assert result is None or result is x, "all_reduce works in place: it returns nothing"
        assert same(x, sum(inputs), what="`x`", before=inputs[check.rank]), "every rank holds the sum of all tensors"

check.end()
