"""All-reduce by a ring: every rank ends with the sum of all tensors, and no
rank sends a whole tensor at once.
"""

import torch
import torch.distributed as dist


def all_reduce(x: torch.Tensor) -> None:
    """Replace the numbers in `x`, which has one dimension, by their sums over
    all ranks.

    Ranks form a ring: each sends to the next one and receives from the
    previous one. Only `dist.send`, `dist.recv`, `dist.isend` and `dist.irecv`
    are allowed.
    """
    rank, n = dist.get_rank(), dist.get_world_size()
    following, previous = (rank + 1) % n, (rank - 1) % n
    # views of x: n chunks, the first of which may be longer by one number
    chunks = list(x.tensor_split(n))

    # lab: write reduce-scatter, then all-gather: n-1 steps each; in every step send one chunk and receive another
    for step in range(n - 1):  # reduce-scatter: add what arrives
        arriving = chunks[(rank - step - 1) % n]
        received = torch.empty_like(arriving)
        sending = dist.isend(chunks[(rank - step) % n], following)
        dist.recv(received, previous)
        arriving += received
        sending.wait()
    for step in range(n - 1):  # all-gather: replace by what arrives
        received = torch.empty_like(chunks[(rank - step) % n])
        sending = dist.isend(chunks[(rank - step + 1) % n], following)
        dist.recv(received, previous)
        sending.wait()
        chunks[(rank - step) % n].copy_(received)
    # lab: end
