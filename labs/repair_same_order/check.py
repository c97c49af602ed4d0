"""Checks the order in which ranks read samples, and that each rank draws noise of its own.

torchrun --nproc-per-node 4 labs/repair_same_order/check.py repair_same_order.py --seed 7
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, differs, same

check = Check("read")
n, rank = check.world_size, check.rank


def gathered(mine: object) -> list[object]:
    """Return what every rank has."""
    everywhere = [None] * n
    dist.all_gather_object(everywhere, mine)
    return everywhere


for seed in check.seeds():
    epochs, each = 3, 12
    samples = n * each
    dataset = torch.arange(samples)
    with check.phase("read"):
        batches = list(check.learner.read(dataset, epochs, 4, seed))
    again = list(check.learner.read(dataset, epochs, 4, seed))
    assert same(len(batches), epochs * each // 4, what=f"batches in {epochs} epochs"), (
        "each rank reads the same number of batches in every epoch"
    )
    read = torch.stack([batch for batch, _ in batches]).view(epochs, each)
    noise = torch.cat([drawn for _, drawn in batches])
    repeated = torch.cat(
        [torch.stack([batch for batch, _ in again]).flatten(), torch.cat([drawn for _, drawn in again])]
    )
    assert same(torch.cat([read.flatten(), noise]), repeated, what="batches and noise"), (
        "the same seed gives the same batches and the same noise"
    )

    everywhere = torch.stack(gathered(read))  # by rank, epoch and place
    for epoch in range(epochs):
        seen = everywhere[:, epoch].flatten().sort().values
        assert same(seen, dataset, what=f"the samples read in epoch {epoch}, sorted"), (
            "every sample is read once in each epoch"
        )
    for epoch in range(1, epochs):
        before = epoch - 1
        other = not torch.equal(read[epoch], read[before])
        assert other or differs(
            f"epoch {epoch} begins with samples {read[epoch][:4].tolist()}, and so does epoch {before}"
        ), "the order is different in every epoch"
    of_epochs = noise.view(epochs, each)
    for epoch in range(1, epochs):
        other = not torch.equal(of_epochs[epoch], of_epochs[0])
        assert other or differs(f"epochs 0 and {epoch} begin with the noise {of_epochs[0][:2].tolist()}"), (
            "every epoch draws new noise"
        )
    drawn = gathered(noise)
    for one in range(1, n):
        other = not torch.equal(drawn[0], drawn[one])
        assert other or differs(f"ranks 0 and {one} begin with the noise {drawn[0][:2].tolist()}"), (
            "ranks draw different noise"
        )

check.end()
