"""Clipping by the global norm, where each rank holds part of the gradients."""

import torch
import torch.distributed as dist


def clip_grad_norm(
    gradients: list[torch.Tensor],
    max_norm: float,
) -> torch.Tensor:
    """Scale the gradients in place, so that the norm of all gradients of all
    ranks is at most `max_norm`.

    `gradients` are this rank's part of the model's gradients. Other ranks hold
    other tensors, and a rank may hold none. Return the norm of all gradients
    of all ranks, as it was before.
    """
    # lab: write compute the norm over all ranks, scale this rank's gradients if it is too large, and return it
    squares = sum((gradient.square().sum() for gradient in gradients), start=torch.zeros(()))
    dist.all_reduce(squares)
    norm = squares.sqrt()
    scale = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    for gradient in gradients:
        gradient.mul_(scale)
    return norm
    # lab: end
