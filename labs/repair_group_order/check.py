"""Checks the row and column groups of a grid of ranks by reducing in each of them.

torchrun --nproc-per-node 4 labs/repair_group_order/check.py repair_group_order.py --width 2 --seed 7
"""

import sys
from pathlib import Path

import torch.distributed as dist

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, same

check = Check("make_groups", width=2)
n, rank, width = check.world_size, check.rank, check.args.width

for _ in check.seeds():
    check.delay()
    with check.phase("groups", groups=n // width + width):
        row, column = check.learner.make_groups(width)
    row_ranks = [each for each in range(n) if each // width == rank // width]
    column_ranks = [each for each in range(n) if each % width == rank % width]
    assert same(sorted(dist.get_process_group_ranks(row)), row_ranks), "the first group is the row of this rank"
    assert same(sorted(dist.get_process_group_ranks(column)), column_ranks), (
        "the second group is the column of this rank"
    )

    numbers = check.tensors(3)
    check.delay()
    with check.phase("reduce"):
        in_row, in_column = numbers[rank].clone(), numbers[rank].clone()
        dist.all_reduce(in_row, group=row)
        dist.all_reduce(in_column, group=column)
    assert same(in_row, sum(numbers[each] for each in row_ranks)), "an all-reduce in the first group sums the row"
    assert same(in_column, sum(numbers[each] for each in column_ranks)), (
        "an all-reduce in the second group sums the column"
    )

check.end()
