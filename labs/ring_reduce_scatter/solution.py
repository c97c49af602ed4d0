"""Reduce-scatter by a ring: each rank ends with one chunk of the sum of all
tensors.
"""

import torch
import torch.distributed as dist


def reduce_scatter(chunks: list[torch.Tensor]) -> torch.Tensor:
    """Return the sum over all ranks of the chunk whose number is this rank's.

    `chunks` has one tensor for each rank; chunk `i` has the same shape on all
    ranks. It is not changed. Only `dist.send`, `dist.recv`, `dist.isend` and
    `dist.irecv` are allowed, and in every step a rank sends one chunk to the
    next rank and receives one from the previous rank.
    """
    rank, n = dist.get_rank(), dist.get_world_size()
    following, previous = (rank + 1) % n, (rank - 1) % n

    # lab: write n-1 steps: pass a partial sum on, receive the next one, and add this rank's own chunk to it
    partial = chunks[(rank - 1) % n].clone()
    for step in range(n - 1):
        own = chunks[(rank - step - 2) % n]
        received = torch.empty_like(own)
        sending = dist.isend(partial, following)
        dist.recv(received, previous)
        sending.wait()
        partial = received + own
    return partial
    # lab: end
