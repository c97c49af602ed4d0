"""Checks that gradients are averaged while backward still runs.

torchrun --nproc-per-node 4 labs/overlapped_ddp/check.py overlapped_ddp.py --seed 7
"""

import copy
import sys
from pathlib import Path

import torch
from torch import nn

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, same

check = Check("OverlappedDDP", layers=3)
n, rank = check.world_size, check.rank


class Layer(nn.Module):
    """A linear layer that prints a line when its backward is over."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.linear, self.number = nn.Linear(6, 6), number

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.requires_grad:
            x.register_hook(self.report)  # runs after the gradients of this layer's weights
        return torch.tanh(self.linear(x))

    def report(self, gradient: torch.Tensor) -> None:
        print(f"backward: layer {self.number} done", flush=True)


for _ in check.seeds():
    model = nn.Sequential(*(Layer(number) for number in range(check.args.layers)))
    model[1].linear.bias.requires_grad_(False)
    reference = copy.deepcopy(model)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    size = sum(parameter.nbytes for parameter in trained)
    ddp = check.learner.OverlappedDDP(model)
    optimizer, plain = torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.SGD(reference.parameters(), lr=0.1)

    for _step in range(2):
        inputs = torch.randn(n, 5, 6)
        plain.zero_grad()
        for layer in reference:
            layer.report = lambda gradient: None
        (sum(reference(inputs[each]).square().mean() for each in range(n)) / n).backward()
        plain.step()

        optimizer.zero_grad()
        loss = ddp(inputs[rank]).square().mean()
        check.delay(0.003)
        with check.phase("backward", bytes=size, tensors=len(trained)):
            loss.backward()
            print("whole: backward done", flush=True)
            ddp.finish()
        for (name, ours), theirs in zip(model.named_parameters(), reference.parameters(), strict=True):
            if theirs.grad is None:
                assert ours.grad is None, "a frozen parameter gets no gradient"
            else:
                assert same(ours.grad, theirs.grad, tolerance=1e-4, what=f"`{name}.grad`"), (
                    "after finish, every gradient is the mean over all ranks"
                )
        optimizer.step()

check.end()
