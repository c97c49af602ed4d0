"""Checks a sharded AdamW: the same steps as one process, with 1/n of the optimizer state.

torchrun --nproc-per-node 4 labs/zero_1/check.py zero_1.py --seed 7
"""

import copy
import sys
from pathlib import Path

import torch
from torch import nn

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, LiveMemory, same

RATE = 0.01
check = Check("ZeroAdam")
n, rank = check.world_size, check.rank


class AdamW:
    """AdamW over whole parameters; torch's own would import torch's compiler, which takes seconds."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.state = [(each, torch.zeros_like(each), torch.zeros_like(each)) for each in parameters]
        self.steps = 0

    @torch.no_grad()
    def step(self) -> None:
        self.steps += 1
        for parameter, mean, square in self.state:
            mean.lerp_(parameter.grad, 0.1)
            square.lerp_(parameter.grad.square(), 0.001)
            corrected = (square / (1 - 0.999**self.steps)).sqrt() + 1e-8
            parameter *= 1 - 0.01 * RATE
            parameter -= RATE / (1 - 0.9**self.steps) * mean / corrected

    def moments(self) -> list[torch.Tensor]:
        """Return this rank's part of the means of the gradients, and of the means of their squares."""
        flat = [torch.cat([moments[at].flatten() for moments in self.state]) for at in (1, 2)]
        return [nn.functional.pad(each, (0, -len(each) % n)).chunk(n)[rank] for each in flat]


for _ in check.seeds():
    wide = check.random.randrange(3, 9)
    model = nn.Sequential(nn.Linear(4, wide), nn.Tanh(), nn.Linear(wide, 3))
    reference = copy.deepcopy(model)
    parameters = list(model.parameters())
    total = sum(parameter.numel() for parameter in parameters)
    memory = LiveMemory()
    with memory:
        optimizer = check.learner.ZeroAdam(parameters, RATE)
    plain = AdamW(list(reference.parameters()))

    for _step in range(3):
        gradients = [torch.randn(parameter.shape) for parameter in parameters]
        for parameter, expected, gradient in zip(parameters, reference.parameters(), gradients, strict=True):
            parameter.grad, expected.grad = gradient.clone(), gradient.clone()
        plain.step()
        check.delay()
        padded = 4 * (total + -total % n)
        with check.phase("step", padded=padded) as measured:
            with memory:
                optimizer.step()
            measured["kept"] = memory.wait_below(3 * padded / n + 64)
        for (name, theirs), ours in zip(reference.named_parameters(), parameters, strict=True):
            assert same(ours, theirs, tolerance=1e-5, what=f"`{name}`"), (
                "after each step all parameters are those of AdamW in one process"
            )
        for place, (ours, gradient) in enumerate(zip(parameters, gradients, strict=True)):
            assert same(ours.grad, gradient, what=f"the gradient of parameter {place}"), (
                "the gradients stay as they were"
            )
        inner = optimizer.optimizer
        if inner.steps:  # the update hardly depends on the scale of the gradients; the moments do
            held = {"mean": inner.mean, "square": inner.square}
            for (name, ours), theirs in zip(held.items(), plain.moments(), strict=True):
                assert same(ours, theirs, tolerance=1e-5, what=f"`optimizer.{name}`"), (
                    "the moments in self.optimizer are this rank's part of those of AdamW in one process"
                )

check.end()
