"""Training that goes on after a restart as if nothing had happened: what a
checkpoint must contain.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn


@dataclass
class Job:
    """What is trained. The weights are the same on all ranks; torch's random
    numbers are not.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LRScheduler


def train(
    job: Job,
    loss_of: Callable[[nn.Module], torch.Tensor],
    folder: Path,
    steps: int,
    every: int,
) -> None:
    """Train until `steps` steps are done, and save a checkpoint every `every`
    steps.

    `loss_of` draws this rank's batch from torch's random numbers, and so do
    the dropouts of the model.
    """
    for step in range(load(job, folder), steps):
        job.optimizer.zero_grad()
        loss_of(job.model).backward()
        for parameter in job.model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
        job.optimizer.step()
        job.schedule.step()
        if (step + 1) % every == 0:
            save(job, folder, step + 1)


def save(job: Job, folder: Path, done: int) -> None:
    """Save a checkpoint after `done` steps; all ranks call this.

    Once it has returned on any rank, the checkpoint is there. If a rank is
    killed before that, the old one remains.
    """
    # lab: write save all that a new process needs to go on; the file is there as a whole, or not at all
    random = torch.get_rng_state()
    of_all_ranks = [torch.empty_like(random) for _ in range(dist.get_world_size())]
    dist.all_gather(of_all_ranks, random)
    if dist.get_rank() == 0:
        state = {
            "done": done,
            "model": job.model.state_dict(),
            "optimizer": job.optimizer.state_dict(),
            "schedule": job.schedule.state_dict(),
            "random": of_all_ranks,
        }
        torch.save(state, folder / "checkpoint.part")
        (folder / "checkpoint.part").replace(folder / "checkpoint.pt")
    dist.barrier()  # no rank goes on before the checkpoint is there
    # lab: end


def load(job: Job, folder: Path) -> int:
    """Restore `job` and torch's random numbers from the last checkpoint;
    return how many steps were done then.

    Without a checkpoint, change nothing and return 0. All ranks call this, in
    new processes.
    """
    # lab: write load the checkpoint into the job, if there is one, and return its number of steps
    file = folder / "checkpoint.pt"
    if not file.exists():
        return 0
    state = torch.load(file)
    job.model.load_state_dict(state["model"])
    job.optimizer.load_state_dict(state["optimizer"])
    job.schedule.load_state_dict(state["schedule"])
    torch.set_rng_state(state["random"][dist.get_rank()])
    return state["done"]
    # lab: end
