"""Checks how the ranks of a job divide its work: who takes which photos, which GPU, and who writes the log.

torchrun --nproc-per-node 4 labs/share_of_work/check.py share_of_work.py --seed 7

Four ranks stand for a job on two nodes: each rank gets the variables that torchrun would set for it there.
"""

import io
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import torch.distributed as dist

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, differs

n, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
nodes = 2 if n == 4 else 1
on_node = n // nodes  # ranks, and so GPUs
node, local_rank = divmod(rank, on_node)
variables = {"LOCAL_RANK": local_rank, "LOCAL_WORLD_SIZE": on_node, "GROUP_RANK": node, "GROUP_WORLD_SIZE": nodes}
os.environ.update({name: str(value) for name, value in variables.items()})  # a file may read them when it is imported
check = Check("my_share", "my_gpu", "log")


def of_all_ranks(mine: list[str]) -> list[list[str]]:
    everyone: list[list[str]] = [[] for _ in range(n)]
    dist.all_gather_object(everyone, mine)
    return everyone


def listed(things: Iterable[object]) -> str:
    """Return `0, 1 and 2`."""
    *some, last = [*map(str, things)] or ["nothing"]
    return f"{', '.join(some)} and {last}" if some else last


def described(value: object) -> str:
    return "None" if value is None else f"{value!r}, a {type(value).__name__}"


def misplaced(photos: list[str], shares: list[list[str]]) -> str:
    """Say which photo is not in exactly one share, or what else is in a share; "" if nothing is wrong."""
    strange = next(((owner, each) for owner, share in enumerate(shares) for each in share if each not in photos), None)
    if strange:
        return f"the share of rank {strange[0]} contains {strange[1]!r}, which is not one of the photos"
    for photo in photos:
        owners = [owner for owner, share in enumerate(shares) for each in share if each == photo]
        if not owners:
            return f"{photo} is in no share"
        if len({*owners}) < len(owners):
            return f"{photo} is more than once in the share of rank {owners[0]}"
        if len(owners) > 1:
            return f"{photo} is in the shares of ranks {listed(owners)}"
    return ""


this_rank = f"this rank (local rank {local_rank} of node {node})" if nodes > 1 else "this rank"
for _ in check.seeds():
    for count in (*range(2 * n, 3 * n), n - 1):  # divided evenly, not evenly, and fewer photos than ranks
        photos = [f"{number}.jpg" for number in range(count)]
        check.delay(0.003)
        with check.phase("decide"):
            found = check.learner.my_share(list(photos))
        is_list = isinstance(found, Iterable) and not isinstance(found, str)
        assert is_list or differs(f"`my_share` returned {described(found)}; expected a list"), (
            "my_share returns a list of photos"
        )
        mine = list(found)
        shares = of_all_ranks(mine)
        wrong = misplaced(photos, shares)
        has = f"{this_rank} has [{', '.join(map(str, mine))}]"
        assert not wrong or differs(f"with {count} photos, {wrong}; {has}"), "each photo is in exactly one share"
        sizes = [len(share) for share in shares]
        assert max(sizes) - min(sizes) <= 1 or differs(f"{count} photos are divided into shares of {listed(sizes)}"), (
            "the largest share has at most one photo more than the smallest"
        )

    with check.phase("decide"):
        gpu = check.learner.my_gpu()
    is_number = type(gpu) is int
    right = is_number and gpu == local_rank
    if not right:
        gpus = f"node {node} has {'GPUs' if on_node > 1 else 'only GPU'} {listed(range(on_node))}"
        got = f"{gpu}, expected {local_rank}" if is_number else f"{described(gpu)}; expected the number {local_rank}"
        differs(f"`my_gpu` returned {got}; this is local rank {local_rank} of node {node}, and {gpus}")
    assert right, "each rank uses the GPU whose number is its local rank"

    file = io.StringIO()
    lines = ["tagging photos", f"{check.random.randrange(10, 100)} photos tagged"]
    for line in lines:
        with check.phase("decide"):
            check.learner.log(line, file)
    written, expected = file.getvalue().splitlines(), lines if rank == 0 else []
    if written != expected:
        differs(f"{this_rank} wrote {listed(map(repr, written))} to the log; expected {listed(map(repr, expected))}")
    assert written == expected, "rank 0 writes each line to the log once, and the other ranks write nothing"

check.end()
