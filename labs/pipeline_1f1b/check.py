"""Checks 1F1B: the gradients of the whole batch, with only a few micro-batches in flight.

torchrun --nproc-per-node 4 labs/pipeline_1f1b/check.py pipeline_1f1b.py --seed 7
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
    """One layer that counts its forwards and backwards, and the most micro-batches between the two."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.forwards = self.backwards = self.held = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.forwards += 1
        self.held = max(self.held, self.forwards - self.backwards)
        y = torch.tanh(self.linear(x))
        y.register_hook(self.count_backward)
        return y

    def count_backward(self, _: torch.Tensor) -> None:
        self.backwards += 1


check = Check("Pipeline")
n, rank = check.world_size, check.rank

for _ in check.seeds():
    for count in (n + 3, check.random.randrange(1, max(2, n - 1))):  # the second time too few to fill the pipeline
        model = nn.Sequential(*(Stage() for _ in range(n)))
        stage = copy.deepcopy(model[rank])
        inputs, targets = torch.randn(2, count, SAMPLES, WIDTH)
        nn.functional.mse_loss(model(inputs.flatten(0, 1)), targets.flatten(0, 1)).backward()

        pipeline = check.learner.Pipeline(stage, nn.functional.mse_loss, (SAMPLES, WIDTH))
        check.delay(0.003)
        with check.phase("step", m=count) as measured:
            pipeline.step(
                list(inputs.clone()) if rank == 0 else [None] * count,
                list(targets.clone()) if rank == n - 1 else [None] * count,
            )
            measured["held"] = stage.held
        assert same(stage.forwards, count, what="forwards of micro-batches"), (
            "each stage runs each micro-batch once forward and once backward"
        )
        assert same(stage.backwards, count, what="backwards of micro-batches"), (
            "each stage runs each micro-batch once forward and once backward"
        )
        for (name, ours), theirs in zip(stage.named_parameters(), model[rank].parameters(), strict=True):
            assert same(ours.grad, theirs.grad, tolerance=1e-4, what=f"`{name}.grad`"), (
                "each stage has the gradients of the whole batch"
            )

check.end()
