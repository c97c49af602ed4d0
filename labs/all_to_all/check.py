"""Checks an all-to-all by messages, under many orders in which ranks arrive.

torchrun --nproc-per-node 4 labs/all_to_all/check.py all_to_all.py --seed 7
"""

import sys
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, same

check = Check("all_to_all", orders=4)
n, rank = check.world_size, check.rank

for _ in check.seeds():
    for order in range(check.args.orders):
        most = (1, 6, 40, 3)[order % 4]
        lengths = torch.randint(0, most + 1, (n, n)).tolist()  # from rank i to rank j; some are 0
        tensors = [[torch.randint(-50, 50, (length,)).float() for length in row] for row in lengths]
        outgoing = [tensor.clone() for tensor in tensors[rank]]
        from_each = [lengths[source][rank] for source in range(n)]
        others = [each for each in range(n) if each != rank]
        check.delay(0.003)
        with check.phase(
            "all-to-all",
            bytes=4 * sum(lengths[rank][each] for each in others),
            messages=sum(lengths[rank][each] > 0 for each in others),
        ):
            found = check.learner.all_to_all(outgoing, from_each)
        for source in range(n):
            assert same(found[source], tensors[source][rank], what=f"what came from rank {source}"), (
                "each rank gets what the others sent to it, in the order of ranks"
            )
        for to, (ours, before) in enumerate(zip(outgoing, tensors[rank], strict=True)):
            assert same(ours, before, what=f"what goes to rank {to}"), "what is sent is not changed"
        found[rank] += 1
        assert same(outgoing[rank], tensors[rank][rank]), "what a rank sends to itself is copied"

check.end()
