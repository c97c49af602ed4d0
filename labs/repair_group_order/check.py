"""Checks the row and column groups of a grid of ranks by reducing in each of them.

torchrun --nproc-per-node 4 labs/repair_group_order/check.py repair_group_order.py --width 2 --seed 7
"""

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, differs, same

LONGEST = timedelta(seconds=1)  # for the other ranks to make the same call; after that, they do not make it


class Calls:
    """Compares each call to new_group with those of the other ranks before torch gets it and could wait forever."""

    def __init__(self) -> None:
        self.count = 0
        self.new_group = dist.new_group
        for module in (dist, dist.distributed_c10d):
            module.new_group = self._call

    def _call(self, ranks: list[int] | None = None, *args: Any, **options: Any) -> Any:
        if not options.get("use_local_synchronization"):  # which only members call
            self.count += 1
            mine, *others = self._all_ranks(sorted(range(dist.get_world_size()) if ranks is None else ranks))
            other = next((number for number, each in enumerate(others, 1) if each != mine), 0)
            assert not other or differs(
                f"call {self.count} to new_group: rank 0 makes {mine}, rank {other} makes {others[other - 1]}"
            ), "all ranks make the same groups in the same order"
        return self.new_group(ranks, *args, **options)

    def _all_ranks(self, ranks: list[int]) -> list[list[int]]:
        """Return what each rank makes in this call; nothing if one of them does not make it."""
        store = dist.distributed_c10d._get_default_store()
        keys = [f"new_group {self.count} on rank {each}" for each in range(dist.get_world_size())]
        store.set(keys[dist.get_rank()], json.dumps(ranks))
        try:
            store.wait(keys, LONGEST)
        except dist.DistStoreError:
            return [ranks]
        return [json.loads(store.get(key)) for key in keys]


Calls()
check = Check("make_groups", width=2)
n, rank, width = check.world_size, check.rank, check.args.width

for _ in check.seeds():
    check.delay()
    with check.phase("groups", groups=n // width + width):
        row, column = check.learner.make_groups(width)
    row_ranks = [each for each in range(n) if each // width == rank // width]
    column_ranks = [each for each in range(n) if each % width == rank % width]
    assert same(sorted(dist.get_process_group_ranks(row)), row_ranks, what="ranks of the first group"), (
        "the first group is the row of this rank"
    )
    assert same(sorted(dist.get_process_group_ranks(column)), column_ranks, what="ranks of the second group"), (
        "the second group is the column of this rank"
    )

    numbers = check.tensors(3)
    check.delay()
    with check.phase("reduce"):
        in_row, in_column = numbers[rank].clone(), numbers[rank].clone()
        dist.all_reduce(in_row, group=row)
        dist.all_reduce(in_column, group=column)
    assert same(in_row, sum(numbers[each] for each in row_ranks)), "the first group is the row of this rank"
    assert same(in_column, sum(numbers[each] for each in column_ranks)), "the second group is the column of this rank"

check.end()
