"""Checks a GPipe step against one process that trains the whole model on the whole batch.

torchrun --nproc-per-node 4 labs/gpipe/check.py gpipe.py --seed 7
"""

import copy
import sys
from pathlib import Path

import torch
from torch import nn

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, same

SAMPLES, WIDTH = 3, 5


class Stage(nn.Module):
    """One layer that writes down when it runs forward and backward."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.events: list[str] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.events.append("F")
        y = torch.tanh(self.linear(x))
        y.register_hook(lambda _: self.events.append("B"))
        return y


check = Check("gpipe_step")
n, rank = check.world_size, check.rank

for _ in check.seeds():
    count = check.random.randrange(2, 5)  # micro-batches
    model = nn.Sequential(*(Stage() for _ in range(n)))
    stage = copy.deepcopy(model[rank])
    inputs, targets = torch.randn(2, count, SAMPLES, WIDTH)
    nn.functional.mse_loss(model(inputs.flatten(0, 1)), targets.flatten(0, 1)).backward()

    activation = 4 * SAMPLES * WIDTH
    messages = count * ((rank < n - 1) + (rank > 0))
    check.delay(0.003)
    with check.phase("step", bytes=messages * activation, messages=messages, m=count):
        check.learner.gpipe_step(
            stage,
            list(inputs.clone()) if rank == 0 else [None] * count,
            list(targets.clone()) if rank == n - 1 else [None] * count,
            nn.functional.mse_loss,
            (SAMPLES, WIDTH),
        )
    assert same("".join(stage.events), "F" * count + "B" * count, what="forwards (F) and backwards (B)"), (
        "each stage runs all micro-batches forward, then all of them backward"
    )
    for (name, ours), theirs in zip(stage.named_parameters(), model[rank].parameters(), strict=True):
        assert same(ours.grad, theirs.grad, tolerance=1e-4, what=f"`{name}.grad`"), (
            "each stage has the gradients of the whole batch"
        )

check.end()
