"""A rod that is cut into pieces, one per rank: before each step, neighbors
exchange the values at their ends.
"""

import torch
import torch.distributed as dist


def smooth(piece: torch.Tensor, steps: int) -> None:
    """Replace each value, in place, by the mean of itself and its two
    neighbors, `steps` times.

    Rank `r` holds the `r`-th piece of a rod; the neighbor of an end value lies
    on the rank beside it. The two ends of the whole rod have one fewer
    neighbor and keep their values. Each piece has two values or more.
    """
    rank, n = dist.get_rank(), dist.get_world_size()
    left, right = rank - 1, rank + 1
    for _ in range(steps):
        # where there is no neighbor, the value itself
        from_left, from_right = piece[:1].clone(), piece[-1:].clone()
        # lab: write
        messages = []
        if left >= 0:
            messages += [dist.isend(piece[:1].clone(), left), dist.irecv(from_left, left)]
        if right < n:
            messages += [dist.isend(piece[-1:].clone(), right), dist.irecv(from_right, right)]
        for message in messages:
            message.wait()
        # lab: broken
        # if left >= 0:
        #     dist.recv(from_left, left)
        #     dist.send(piece[:1].clone(), left)
        # if right < n:
        #     dist.recv(from_right, right)
        #     dist.send(piece[-1:].clone(), right)
        # lab: end
        around = torch.cat([from_left, piece, from_right])
        smoothed = (around[:-2] + around[1:-1] + around[2:]) / 3
        if left < 0:
            smoothed[0] = piece[0]
        if right == n:
            smoothed[-1] = piece[-1]
        piece.copy_(smoothed)
