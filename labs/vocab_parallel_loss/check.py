"""Checks a loss over a vocabulary that is cut over the ranks against cross-entropy over the whole vocabulary.

torchrun --nproc-per-node 4 labs/vocab_parallel_loss/check.py vocab_parallel_loss.py --seed 7
"""

import sys
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, same

check = Check("VocabParallelLoss")
n, rank = check.world_size, check.rank

for _ in check.seeds():
    for scale in (1.0, 200.0):  # exp(200) is infinite
        tokens, words = 4 * n, check.random.randrange(5, 9)
        whole = scale * torch.randn(tokens, n * words)
        targets = torch.randint(n * words, (tokens,))
        logits, before = whole.chunk(n, dim=1)[rank].clone().requires_grad_(), whole.chunk(n, dim=1)[rank].clone()
        whole.requires_grad_()
        expected = torch.nn.functional.cross_entropy(whole, targets)
        (3 * expected).backward()

        check.delay()
        with check.phase("forward", bytes=4 * tokens):
            loss = check.learner.VocabParallelLoss.apply(logits, targets.clone())
        assert same(loss, expected, tolerance=1e-4, what="the loss"), "the loss is that of the whole vocabulary"
        assert same(logits, before, what="`logits`"), "the logits stay as they were"
        with check.phase("backward"):
            (3 * loss).backward()
        assert same(logits.grad, whole.grad.chunk(n, dim=1)[rank], tolerance=1e-4, what="`logits.grad`"), (
            "each rank has the gradient of its own logits"
        )

check.end()
