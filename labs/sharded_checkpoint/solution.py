"""A sharded checkpoint: each rank writes its shard, any number of ranks can
load it, and a crash cannot spoil it.
"""

import json
from pathlib import Path

import torch
import torch.distributed as dist


def place(size: int, rank: int, n: int) -> tuple[int, int]:
    """Return where the shard of a rank begins and ends if `n` ranks share
    `size` numbers, as `tensor_split` does.
    """
    length, longer = divmod(size, n)
    begin = rank * length + min(rank, longer)
    return begin, begin + length + (rank < longer)


def save(folder: Path, step: int, shard: torch.Tensor, size: int) -> None:
    """Save a checkpoint of `size` numbers in `folder`; all ranks call this,
    each with its own shard.

    Once it has returned on any rank, `load` finds this checkpoint. If a rank
    is killed before that, at any moment, `load` finds either this checkpoint
    or the one before, and it is whole.
    """
    # lab: write each rank saves its shard in a file of this step; when all have, rank 0 makes the checkpoint count
    rank, n = dist.get_rank(), dist.get_world_size()
    files = folder / f"step-{step}"
    files.mkdir(exist_ok=True)  # it may be there: from another rank, or from a save that was killed
    torch.save(shard, files / f"{rank}.pt")
    dist.barrier()  # all shards are written
    if rank == 0:
        part = folder / "latest.part"
        part.write_text(json.dumps({"step": step, "size": size, "ranks": n}))
        part.replace(folder / "latest")  # at once: a reader finds the old file or the new one
    dist.barrier()  # the checkpoint counts
    # lab: end


def load(folder: Path, rank: int, n: int) -> tuple[int, torch.Tensor]:
    """Return the step of the last whole checkpoint, and the shard of rank
    `rank` of `n`.

    A different number of ranks may have saved it. A process calls this alone,
    and reads only the files that it needs.
    """
    # lab: write find the last checkpoint, and put the shard together from the files that have a part of it
    latest = json.loads((folder / "latest").read_text())
    step, size, saved = latest["step"], latest["size"], latest["ranks"]
    begin, end = place(size, rank, n)
    shard = torch.empty(end - begin)
    for each in range(saved):
        first, last = place(size, each, saved)
        low, high = max(begin, first), min(end, last)
        if low < high:
            piece = torch.load(folder / f"step-{step}" / f"{each}.pt")
            shard[low - begin : high - begin] = piece[low - first : high - first]
    # lab: end
    return step, shard
