"""What each process of a job works out for itself, from the variables that
torchrun sets for it.
"""

import os
from typing import TextIO


def my_share(photos: list[str]) -> list[str]:
    """Return the photos that this process tags.

    All processes get the same list. Each photo must be in the share of exactly
    one process, and the largest share may have at most one photo more than the
    smallest.
    """
    # lab: write return this process's share of the photos
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    return photos[rank::world_size]  # this may be an empty list
    # lab: end


def my_gpu() -> int:
    """Return the number of the GPU that this process uses.

    Each node has one GPU for each of its processes, and numbers them from 0.
    """
    # lab: write return the number of this process's GPU
    return int(os.environ["LOCAL_RANK"])
    # lab: end


def log(line: str, file: TextIO) -> None:
    """Print `line` to `file`, a text file that is already open.

    All processes call this, but only rank 0 may write.
    """
    # lab: write print the line to the file, on rank 0 only
    if int(os.environ["RANK"]) == 0:
        print(line, file=file)
    # lab: end
