"""Groups for tensor parallelism and data parallelism on a grid of ranks."""

import torch.distributed as dist


def make_groups(width: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    """Return the row and the column of this rank in a grid that is `width`
    ranks wide.

    Ranks 0 to width - 1 are the first row, and so on. A row is a
    tensor-parallel group, a column a data-parallel one.
    """
    rank, n = dist.get_rank(), dist.get_world_size()
    row, column = rank // width, rank % width
    rows = [list(range(first, first + width)) for first in range(0, n, width)]
    columns = [list(range(first, n, width)) for first in range(width)]
    # lab: write
    row_groups = [dist.new_group(ranks) for ranks in rows]  # every rank makes all groups, in one order
    column_groups = [dist.new_group(ranks) for ranks in columns]
    return row_groups[row], column_groups[column]
    # lab: broken
    # row_group = dist.new_group(rows[row])
    # column_group = dist.new_group(columns[column])
    # return row_group, column_group
    # lab: end
