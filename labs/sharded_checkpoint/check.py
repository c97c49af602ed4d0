"""Checks a sharded checkpoint: loaded by different numbers of ranks, and after ranks were killed while they saved.

torchrun --nproc-per-node 4 --max-restarts 2 labs/sharded_checkpoint/check.py sharded_checkpoint.py --seed 7
"""

import sys
from itertools import accumulate
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, Disk, LiveMemory, Restarts, differs, raised, same


def numbers(step: int) -> torch.Tensor:
    """Return what all ranks together save in a step."""
    return torch.arange(size) + 100_000.0 * step


def spans(ranks: int) -> list[tuple[int, int]]:
    """Return where the shard of each rank begins and ends."""
    ends = list(accumulate(len(shard) for shard in numbers(0).tensor_split(ranks)))
    return list(zip([0, *ends], ends, strict=False))


def save(folder: Path, step: int) -> None:
    begin, end = spans(n)[rank]
    check.learner.save(folder, step, numbers(step)[begin:end].clone(), size)


def load_after_kill(folder: Path, ranks: int) -> tuple[int, torch.Tensor] | None:
    """Return what a load finds, or None if it fails."""
    try:
        return check.learner.load(folder, rank % ranks, ranks)
    except Exception as wrong:  # noqa: BLE001  # a torn file can raise anything
        return raised("load", wrong, check.args.file)


check = Check("save", "load")
n, rank = check.world_size, check.rank
restarts = Restarts()
disk = Disk(restarts)

# 1. Two checkpoints without a failure, loaded by different numbers of ranks.
for seed in check.seeds():
    if restarts.stage:
        continue  # this was checked before a rank was killed
    size, folder = check.random.randrange(5000, 6000) * n + n // 2, restarts.folder / str(seed)
    for step in (1, 2):
        folder.mkdir(exist_ok=True)
        begin, end = spans(n)[rank]
        check.delay(0.003)
        disk.slow = 0.003 * (rank == 0)
        with check.phase("save", bytes=4 * (end - begin)):
            save(folder, step)
        disk.slow = 0.0
        if step == 1:
            dist.barrier()  # the next one must be there as soon as `save` has returned on this rank
        for ranks in (2, n, 3, 1):
            begin, end = spans(ranks)[rank % ranks]
            needed = [4 * (last - first) for first, last in spans(n) if first < end and begin < last]
            disk.read.clear()
            phase = check.phase("load", bytes=4 * (end - begin), files=sum(needed), file=max(needed))
            with phase as measured, LiveMemory() as memory:
                found, shard = check.learner.load(folder, rank % ranks, ranks)
                measured["peak"] = memory.peak
                measured["read"] = sum(Path(file).stat().st_size for file in disk.read)
            assert found == step or differs(f"`load` found step {found} after step {step} was saved"), (
                "once `save` has returned on a rank, `load` finds that checkpoint there"
            )
            assert same(shard, numbers(step)[begin:end], what="the shard"), (
                "each rank loads its shard, whatever the number of ranks"
            )
        dist.barrier()

# 2. Ranks are killed in the middle of a save: first one that writes its shard, then rank 0 in its last change.
size, folder = 100 * n + 1, restarts.folder / "killed"
folder.mkdir(exist_ok=True)
for stage in range(restarts.stage, 3):
    for ranks in (n, 2) if stage else ():
        begin, end = spans(ranks)[rank % ranks]
        found = load_after_kill(folder, ranks)
        assert found is not None, "after a rank was killed in the middle of a save, there is a checkpoint to load"
        dist.barrier()  # report a rank that finds nothing, not another that finds torn numbers
        assert found[0] in (2 * stage - 1, 2 * stage) or differs(
            f"`load` found step {found[0]} after step {2 * stage - 1} was saved and step {2 * stage} was interrupted"
        ), "after an interrupted save, `load` finds the checkpoint before it or the new one"
        assert same(found[1], numbers(found[0])[begin:end], what="the shard"), (
            "what `load` finds after an interrupted save is whole"
        )
    dist.barrier()
    if stage:
        save(folder, 2 * stage)  # once more, among the files that the killed rank has left
        dist.barrier()
    disk.changes = 0
    save(folder, 2 * stage + 1)
    dist.barrier()
    if stage < 2:
        victim = (max(0, n - 1 - seed % 2), 0)[stage]
        if rank == victim:
            disk.fatal, disk.changes = ("write", disk.changes)[stage], 0
        save(folder, 2 * stage + 2)
        disk.fatal = 0
        dist.barrier()

restarts.end()
check.end()
