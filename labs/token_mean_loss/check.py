"""Checks that averaged gradients are those of the mean over all tokens of all ranks.

torchrun --nproc-per-node 4 labs/token_mean_loss/check.py token_mean_loss.py --seed 7
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, differs, same

WIDTH, VOCABULARY, LONG = 4, 6, 1100

check = Check("token_mean_loss")
n, rank = check.world_size, check.rank


def token_losses(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the cross-entropy of every token, in one row."""
    chosen = labels != -100
    return -logits.log_softmax(-1)[chosen].gather(-1, labels[chosen].unsqueeze(-1)).flatten()


for _ in check.seeds():
    short = check.random.randrange(6, 10)
    uneven = [check.random.randrange(1, 2 * short) for _ in range(n)]
    uneven[0] = 2 * short
    last_empty = [*uneven[:-1], 0 if n > 1 else 1]
    many = [
        2049,
        *(2 * check.random.randrange(1, short) for _ in range(n - 1)),
    ]  # in float16, 2049 and its sum are 2048
    for length, tokens in ((short, uneven), (short, last_empty), (LONG, many)):
        weight = torch.randn(WIDTH, VOCABULARY, requires_grad=True)
        inputs = [torch.randn(2, length, WIDTH) for _ in range(n)]
        labels = [torch.randint(0, VOCABULARY, (2, length)) for _ in range(n)]
        for each, count in zip(labels, tokens, strict=True):
            each.flatten()[torch.randperm(each.numel())[count:]] = -100
        losses = torch.cat([token_losses(inputs[each] @ weight, labels[each]) for each in range(n)])
        (expected,) = torch.autograd.grad(losses.mean(), weight)

        logits = inputs[rank] @ weight
        check.delay()
        with check.phase("loss"):
            loss = check.learner.token_mean_loss(logits, labels[rank])
        dist.barrier()  # a rank that missed a call is seen here
        numbers = loss.numel() if isinstance(loss, torch.Tensor) else 0
        if numbers != 1:
            differs(f"the result is a {type(loss).__name__} with {numbers} numbers in it")
        assert numbers == 1, "the result is a tensor with one number"
        if tokens[rank] == 0:
            assert same(torch.tensor(loss.item()), torch.tensor(0.0), what="the loss"), (
                "the loss of a rank without tokens is 0"
            )
        loss.backward()
        dist.all_reduce(weight.grad)
        mean = weight.grad / n
        assert same(mean, expected, tolerance=1e-4, what="the averaged gradient"), (
            "the averaged gradients are those of the mean over all tokens"
        )

check.end()
