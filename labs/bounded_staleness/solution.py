"""A parameter server with bounded staleness: fast workers run ahead of slow
ones, but only by a limited number.
"""

from collections.abc import Callable

import torch
import torch.distributed as dist


def work(
    gradient_of: Callable[[torch.Tensor, int], torch.Tensor],
    weights: torch.Tensor,
    steps: int,
) -> None:
    """Run a worker: in each step, receive the weights from rank 0 and send it
    the gradient.
    """
    for step in range(steps):
        dist.recv(weights, src=0)
        dist.send(gradient_of(weights, step), dst=0)


def serve(weights: torch.Tensor, steps: int, bound: int, rate: float) -> None:
    """Run the server, rank 0, until each worker has sent `steps` gradients;
    all other ranks are workers.

    A worker gets the weights for its next step as soon as it has finished at
    most `bound` steps more than the slowest worker. Each gradient is applied
    when it arrives: `rate` times the gradient is subtracted from `weights`, in
    place.
    """
    workers = range(1, dist.get_world_size())
    # how many steps each worker has finished
    finished = dict.fromkeys(workers, 0)
    waiting = set(workers)  # waiting for the weights for their next step
    gradient = torch.empty_like(weights)

    # lab: write until all steps are finished: answer the workers that may begin a step, then apply the next gradient
    while min(finished.values()) < steps:
        slowest = min(finished.values())
        for worker in [each for each in waiting if finished[each] - slowest <= bound]:
            dist.send(weights, worker)
            waiting.remove(worker)
        worker = dist.recv(gradient)  # from whoever comes first
        weights -= rate * gradient
        finished[worker] += 1
        if finished[worker] < steps:
            waiting.add(worker)
    # lab: end
