"""Checks training in which rank 0 evaluates after each epoch, against the same steps without DDP.

torchrun --nproc-per-node 4 labs/repair_evaluation/check.py repair_evaluation.py --seed 7
"""

import copy
import sys
from pathlib import Path

import torch
from torch import nn

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, same

check = Check("train")
n, rank = check.world_size, check.rank

for _ in check.seeds():
    epochs, batches = check.random.randrange(2, 4), 2
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))
    replicas = [copy.deepcopy(model) for _ in range(n)]
    inputs, classes = torch.randn(epochs, batches, n, 8, 4), torch.randint(3, (epochs, batches, n, 8))
    validation = torch.randn(40, 4), torch.randint(3, (40,))

    # All replicas in one process: gradients are averaged, and before each forward the buffers are those of rank 0.
    optimizers = [torch.optim.SGD(replica.parameters(), lr=0.05) for replica in replicas]
    expected = []
    for epoch in range(epochs):
        for batch in range(batches):
            for replica in replicas[1:]:
                replica.load_state_dict(dict(replicas[0].named_buffers()), strict=False)
            for each, replica in enumerate(replicas):
                replica.zero_grad()
                nn.functional.cross_entropy(replica(inputs[epoch, batch, each]), classes[epoch, batch, each]).backward()
            for same_parameter in zip(*(replica.parameters() for replica in replicas), strict=True):
                mean = sum(parameter.grad for parameter in same_parameter) / n
                for parameter in same_parameter:
                    parameter.grad = mean.clone()
            for optimizer in optimizers:
                optimizer.step()
        replicas[0].eval()
        with torch.no_grad():
            right = replicas[0](validation[0]).argmax(dim=1) == validation[1]
        expected.append(right.float().mean().item())
        replicas[0].train()

    mine = [[(inputs[e, b, rank].clone(), classes[e, b, rank].clone()) for b in range(batches)] for e in range(epochs)]
    check.delay()
    with check.phase("training", steps=epochs * batches):
        shares = check.learner.train(model, mine, validation, rank)
    for (name, ours), theirs in zip(model.named_parameters(), replicas[rank].parameters(), strict=True):
        assert same(ours, theirs, tolerance=1e-4, what=f"`{name}`"), (
            "the weights are those of training without evaluation"
        )
    if rank == 0:
        assert same(torch.tensor(shares), torch.tensor(expected), tolerance=1e-4, what="the shares"), (
            "rank 0 returns the share that its model gets right, in evaluation mode"
        )
    else:
        assert same(shares, [], what="shares returned"), "other ranks return no shares"
    for (name, ours), theirs in zip(model.named_buffers(), replicas[rank].buffers(), strict=True):
        assert same(ours, theirs, tolerance=1e-4, what=f"`{name}`"), (
            "the statistics of BatchNorm are those without evaluation"
        )

check.end()
