"""Data parallelism that sends its gradients in buckets, while backward goes
on.
"""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import nn


def plan_buckets(
    parameters: Sequence[nn.Parameter],
    capacity: int,
) -> list[list[nn.Parameter]]:
    """Return the parameters in buckets of at most `capacity` bytes, the last
    parameter first.

    A bucket takes parameters in reverse order until the next one does not fit.
    A parameter that is larger than `capacity` has a bucket of its own.
    """
    # lab: write fill one bucket after the other, beginning with the last parameter
    buckets: list[list[nn.Parameter]] = []
    free = -1
    for parameter in reversed(parameters):
        if parameter.nbytes > free:
            buckets.append([])
            free = capacity
        buckets[-1].append(parameter)
        free -= parameter.nbytes
    return buckets
    # lab: end


class BucketedDDP(nn.Module):
    """Wraps a module, which is the same on all ranks. Every parameter gets a
    gradient in each step.

    The buckets are sent in the order of the plan, on every rank. Each is sent
    during backward, as soon as its gradients and those of all buckets before
    it are complete. After `finish()` every gradient is the mean over all
    ranks.
    """

    def __init__(self, module: nn.Module, capacity: int) -> None:
        super().__init__()
        self.module = module
        self.buckets = plan_buckets(list(module.parameters()), capacity)
        # gradients that each bucket still waits for
        self.missing = [len(bucket) for bucket in self.buckets]
        # the buckets sent in this step, from the first on
        self.sent: list[tuple[dist.Work, torch.Tensor]] = []
        self.bucket_of = {p: index for index, bucket in enumerate(self.buckets) for p in bucket}
        for parameter in module.parameters():
            parameter.register_post_accumulate_grad_hook(self.ready)

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.module(*args)

    def ready(self, parameter: nn.Parameter) -> None:
        """Called in backward, as soon as the gradient of `parameter` is
        complete.
        """
        # lab: write count the gradient, and send every bucket that may go now, in the order of the plan
        self.missing[self.bucket_of[parameter]] -= 1
        while len(self.sent) < len(self.buckets) and self.missing[len(self.sent)] == 0:
            self.send(len(self.sent))
        # lab: end

    def send(self, index: int) -> None:
        """Begin to average the gradients of a bucket, and return at once."""
        flat = torch.cat([p.grad.flatten() for p in self.buckets[index]])
        flat /= dist.get_world_size()
        self.sent.append((dist.all_reduce(flat, async_op=True), flat))

    def finish(self) -> None:
        """Wait for all buckets, copy the means into the gradients, and be
        ready for the next step.
        """
        for bucket, (work, flat) in zip(self.buckets, self.sent, strict=False):
            work.wait()
            means = flat.split([parameter.numel() for parameter in bucket])
            for parameter, mean in zip(bucket, means, strict=True):
                parameter.grad.copy_(mean.view_as(parameter))
        self.missing = [len(bucket) for bucket in self.buckets]
        self.sent.clear()
