"""Checks a broadcast by a tree: every rank has the data, after a small number of rounds of messages.

torchrun --nproc-per-node 4 labs/tree_broadcast/check.py tree_broadcast.py --seed 7
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, same

check = Check("broadcast")
n, rank = check.world_size, check.rank

for _ in check.seeds():
    for source in range(n):
        inputs = check.tensors(check.random.randrange(1, 40))
        x = inputs[rank].clone()
        check.delay(0.004)
        with check.phase("broadcast", bytes=x.nbytes):
            check.learner.broadcast(x, source)
        assert same(x, inputs[source], what="`x`", before=inputs[rank]), "every rank holds the numbers of the source"

check.end()
