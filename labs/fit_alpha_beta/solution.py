"""Latency and bandwidth of a network, fitted to times of all-reduces, and what
they predict.
"""

import time
from collections.abc import Callable

import torch
import torch.distributed as dist


def time_all_reduce(size: int) -> float:
    """Run one all-reduce of `size` bytes over all ranks, and return the
    seconds that this rank spent in it.
    """
    x = torch.zeros(max(1, size // 4))
    dist.barrier()
    start = time.perf_counter()
    dist.all_reduce(x)
    return time.perf_counter() - start


def measure(
    timer: Callable[[int], float],
    sizes: list[int],
    repeats: int,
) -> torch.Tensor:
    """Return how many seconds an undisturbed all-reduce of each size takes, in
    float64; all ranks return the same.

    `timer`, such as `time_all_reduce`, runs one all-reduce over all ranks,
    which all call it `repeats` times for each size. A rank that comes late
    sees only the rest of an all-reduce. Now and then other jobs slow down all
    ranks.
    """
    # lab: write time all sizes; take the rank that was in each all-reduce longest, then a time without disturbance
    seconds = torch.tensor([[timer(size) for _ in range(repeats)] for size in sizes], dtype=torch.float64)
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    return seconds.median(dim=1).values
    # lab: end


def predict(size: int, n: int, alpha: float, beta: float) -> float:
    """Return the seconds of a ring all-reduce of `size` bytes on `n` ranks.

    `alpha` is the latency of a message in seconds, and `beta` the seconds that
    each byte of it takes.
    """
    # lab: write a ring sends 2 (n-1) messages one after the other; how long is each?
    return 2 * (n - 1) * (alpha + size / n * beta)
    # lab: end


def fit(
    sizes: list[int],
    seconds: torch.Tensor,
    n: int,
) -> tuple[float, float]:
    """Return the `alpha` and `beta` that bring `predict` as close as possible,
    in percent, to the measured times.
    """
    # lab: write least squares with one equation for each size, in which errors count in percent
    equations = [[predict(0, n, 1, 0), predict(size, n, 0, 1)] for size in sizes]  # times (alpha, beta)
    relative = torch.tensor(equations, dtype=torch.float64) / seconds.unsqueeze(1)
    alpha, beta = torch.linalg.lstsq(relative, torch.ones_like(seconds)).solution.tolist()
    return alpha, beta
    # lab: end
