"""Checks that several micro-batches make one step with one synchronization.

torchrun --nproc-per-node 4 labs/gradient_accumulation/check.py gradient_accumulation.py --seed 7
"""

import copy
import sys
from pathlib import Path

import torch
from torch import nn

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, same

check = Check("AccumulatingDDP", "train_step")
n, rank = check.world_size, check.rank


class Model(nn.Module):
    """Two layers; prints a line in the backward of its last forward, between the two."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 5), nn.Linear(5, 2)
        self.forwards_left = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.first(x))
        self.forwards_left -= 1
        if self.forwards_left == 0:
            hidden.register_hook(self.report)  # runs when the second layer has its gradients
        return self.second(hidden)

    def report(self, _gradient: torch.Tensor) -> None:
        print("last: backward reaches the first layer", flush=True)


for _ in check.seeds():
    model = Model()
    reference = copy.deepcopy(model)
    size, tensors = sum(parameter.nbytes for parameter in model.parameters()), len(list(model.parameters()))
    ddp = check.learner.AccumulatingDDP(model)
    optimizer, plain = torch.optim.SGD(model.parameters(), lr=0.5), torch.optim.SGD(reference.parameters(), lr=0.5)

    for count in (3, 1, check.random.randrange(2, 6)):  # micro-batches of a step
        inputs, answers = torch.randn(n, count, 6, 4), torch.randn(n, count, 6, 2)
        plain.zero_grad()
        nn.functional.mse_loss(reference(inputs.flatten(0, 2)), answers.flatten(0, 2)).backward()
        plain.step()
        mine = list(zip(inputs[rank].clone(), answers[rank].clone(), strict=True))
        model.forwards_left = count
        check.delay(0.003)
        with check.phase("step", bytes=size, tensors=tensors):
            check.learner.train_step(ddp, optimizer, mine)
        for (name, ours), theirs in zip(model.named_parameters(), reference.parameters(), strict=True):
            assert same(ours, theirs, tolerance=1e-4, what=f"`{name}`"), (
                "after a step the weights are those of one big batch"
            )

    inputs = torch.randn(n, 6, 4)
    model.zero_grad()
    reference.zero_grad()
    reference(inputs[rank]).square().sum().backward()
    with ddp.no_sync():
        with ddp.no_sync():
            pass
        ddp(inputs[rank]).square().sum().backward()
    for (name, ours), theirs in zip(model.named_parameters(), reference.parameters(), strict=True):
        assert same(ours.grad, theirs.grad, tolerance=1e-4, what=f"`{name}.grad`"), (
            "in no_sync a backward adds to this rank's gradients only"
        )

    error = ValueError("an error inside no_sync")
    try:
        with ddp.no_sync():
            raise error
    except ValueError as caught:
        if caught is not error:  # an error from the learner's code
            raise
    model.zero_grad()
    reference.zero_grad()
    (reference(inputs.flatten(0, 1)).square().sum() / n).backward()
    ddp(inputs[rank]).square().sum().backward()
    ddp.finish()
    for (name, ours), theirs in zip(model.named_parameters(), reference.parameters(), strict=True):
        assert same(ours.grad, theirs.grad, tolerance=1e-4, what=f"`{name}.grad`"), (
            "after an error in no_sync, gradients are averaged again"
        )

check.end()
