"""Broadcast by a tree: in every round, each rank that has the data sends it to
one that has not.
"""

import torch
import torch.distributed as dist


def broadcast(x: torch.Tensor, source: int) -> None:
    """Copy the numbers in `x` on rank `source` into `x` on all other ranks.

    Only `dist.send`, `dist.recv`, `dist.isend` and `dist.irecv` are allowed.
    It takes ceil(log2(n)) rounds of messages.
    """
    rank, n = dist.get_rank(), dist.get_world_size()
    # the source has place 0; the rank at place p is (p + source) % n
    place = (rank - source) % n

    # lab: write in round k = 0, 1, ... the 2**k ranks that have the data each send it to one more rank
    holders = 1  # the places below this number have the data
    while holders < n:
        if place < holders and place + holders < n:
            dist.send(x, (place + holders + source) % n)
        elif holders <= place < 2 * holders:
            dist.recv(x, (place - holders + source) % n)
        holders *= 2
    # lab: end
