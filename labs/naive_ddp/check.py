"""Checks a naive DDP against one process that trains on the batches of all ranks.

torchrun --nproc-per-node 4 labs/naive_ddp/check.py naive_ddp.py --seed 7
"""

import copy
import sys
from pathlib import Path

import torch
from torch import nn

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, same

WORDS, WIDTH = 11, 6


class Model(nn.Module):
    """Predicts a word from a word. Embedding and head are tied, `frozen` is not trained, and there are two buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.frozen = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.body = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("scale", torch.rand(WIDTH))
        self.register_buffer("version", torch.randint(100, (1,)))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.scale * torch.tanh(self.body(self.frozen(self.embedding(words)))))


def loss_of(model: nn.Module, words: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(words), answers)


check = Check("NaiveDDP")
n, rank = check.world_size, check.rank

for seed in check.seeds():
    models = [Model() for _ in range(n)]  # every rank draws the models of all ranks
    reference, mine = copy.deepcopy(models[0]), models[rank]
    trained = [parameter for parameter in mine.parameters() if parameter.requires_grad]
    state = sum(tensor.nbytes for tensor in (*mine.parameters(), *mine.buffers()))
    began, buffers = copy.deepcopy(mine.state_dict()), {name for name, _ in mine.named_buffers()}

    # 1. The same start everywhere.
    check.delay()
    with check.phase("start", bytes=state):
        ddp = check.learner.NaiveDDP(mine)
    for name, tensor in reference.state_dict().items():
        what = f"the {'buffer' if name in buffers else 'parameter'} `{name}`"
        assert same(mine.state_dict()[name], tensor, what=what, before=began[name]), (
            "every rank begins with rank 0's parameters and buffers"
        )
    assert mine.head.weight is mine.embedding.weight, "tied parameters stay one tensor"

    # 2. Three steps, each on a batch of its own; the reference trains on all batches in one process.
    optimizer = torch.optim.SGD(mine.parameters(), lr=0.1)
    plain = torch.optim.SGD(reference.parameters(), lr=0.1)
    for _ in range(3):
        words = torch.randint(WORDS, (2, n, 5))
        plain.zero_grad()
        (sum(loss_of(reference, words[0, each], words[1, each]) for each in range(n)) / n).backward()
        plain.step()

        optimizer.zero_grad()
        check.delay()
        with check.phase("step", bytes=sum(tensor.nbytes for tensor in trained), tensors=len(trained)):
            loss_of(ddp, words[0, rank], words[1, rank]).backward()
            ddp.synchronize()
        for (name, ours), theirs in zip(mine.named_parameters(), reference.parameters(), strict=True):
            if theirs.grad is None:
                assert ours.grad is None, "a frozen parameter gets no gradient"
            else:
                assert same(ours.grad, theirs.grad, tolerance=1e-4, what=f"`{name}.grad`"), (
                    "every rank holds the mean of all gradients"
                )
        optimizer.step()
        for (name, ours), theirs in zip(mine.named_parameters(), reference.parameters(), strict=True):
            assert same(ours, theirs, tolerance=1e-4, what=f"`{name}`"), (
                "after each step the weights are those of one process"
            )

check.end()
