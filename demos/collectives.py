"""Collectives: eight operations, and what ranks hold before and after.

    torchrun --nproc-per-node 4 demos/collectives.py

Rank r starts with 10r, 10r+1, ..., so each number shows which rank it came
from and at which position it stood. Look at who holds the result: only the root
(gather, reduce), all ranks alike (broadcast, all-gather, all-reduce), or each
rank a part of its own (scatter, reduce-scatter, all-to-all). After `reduce`, the
other ranks hold numbers too, marked undefined: partial sums left over on the
way to the root, which may be different in the next run.

Try    --op all-to-all    this operation only: the table of all ranks' rows is transposed
       --root 1           a different root, for the operations that have one
       --reduce max       the largest number instead of the sum
"""

import argparse
import os
from datetime import timedelta

import torch
import torch.distributed as dist

OPERATIONS = ("broadcast", "scatter", "gather", "all-gather", "reduce", "all-reduce", "reduce-scatter", "all-to-all")


def broadcast_and_scatter(todo: tuple[str, ...], table: torch.Tensor, root: int) -> None:
    """One rank gives. Broadcast: every rank gets the whole. Scatter: rank r gets part r."""
    rank, mine = dist.get_rank(), table[dist.get_rank()]
    if "broadcast" in todo:
        x = mine.clone()
        show("broadcast before", x)
        dist.broadcast(x, src=root)
        show("broadcast after", x)
        assert torch.equal(x, table[root]), "broadcast: every rank holds the root's numbers"

    if "scatter" in todo:
        parts, x = mine.split(1), torch.full_like(mine[:1], -1)
        show("scatter before", mine if rank == root else None)
        dist.scatter(x, list(parts) if rank == root else None, src=root)
        show("scatter after", x)
        assert torch.equal(x, table[root, rank : rank + 1]), "scatter: rank r holds part r of the root's numbers"


def gather_and_all_gather(todo: tuple[str, ...], table: torch.Tensor, root: int) -> None:
    """All ranks give, nothing is added up. Gather: to the root only. All-gather: to all ranks."""
    rank, parts = dist.get_rank(), table[dist.get_rank()].split(1)
    if "gather" in todo:
        collected = [torch.full_like(part, -1) for part in parts] if rank == root else None
        show("gather before", parts[0])
        dist.gather(parts[0], collected, dst=root)
        show("gather after", collected)
        if collected is not None:
            assert torch.equal(torch.cat(collected), table[:, 0]), "gather: the root holds one number from each rank"

    if "all-gather" in todo:
        collected = [torch.full_like(part, -1) for part in parts]
        show("all-gather before", parts[0])
        dist.all_gather(collected, parts[0])
        show("all-gather after", collected)
        assert torch.equal(torch.cat(collected), table[:, 0]), "all-gather: every rank holds one number from each rank"


def reduce_and_all_reduce(todo: tuple[str, ...], table: torch.Tensor, root: int, op: dist.ReduceOp) -> None:
    """All ranks give, and numbers in the same place are added up. Reduce: at the root. All-reduce: at every rank."""
    rank, mine = dist.get_rank(), table[dist.get_rank()]
    reduced = table.sum(dim=0) if op == dist.ReduceOp.SUM else table.amax(dim=0)
    if "reduce" in todo:
        x = mine.clone()
        show("reduce before", x)
        dist.reduce(x, dst=root, op=op)
        # On the other ranks the result is undefined. Gloo leaves partial sums there: never read them.
        if rank != root:
            print(f"reduce after: undefined, {' '.join(map(str, x.tolist()))}")
        else:
            show("reduce after", x)
            assert torch.equal(x, reduced), "reduce: the root holds the sum (or maximum) over all ranks"

    if "all-reduce" in todo:
        x = mine.clone()
        show("all-reduce before", x)
        dist.all_reduce(x, op=op)
        show("all-reduce after", x)
        assert torch.equal(x, reduced), "all-reduce: every rank holds the sum (or maximum) over all ranks"

    # The same, but rank r keeps only part r. An all-gather after it completes an all-reduce, as in a ring.
    if "reduce-scatter" in todo:
        x, collected = torch.full_like(mine[:1], -1), [torch.full_like(part, -1) for part in mine.split(1)]
        reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor  # the older name
        show("reduce-scatter before", mine)
        reduce_scatter(x, mine, op=op)
        show("reduce-scatter after", x)
        assert torch.equal(x, reduced[rank : rank + 1]), "reduce-scatter: rank r holds part r of the sum (or maximum)"
        dist.all_gather(collected, x)
        show("then all-gather", collected)
        whole = mine.clone()
        dist.all_reduce(whole, op=op)
        assert torch.equal(torch.cat(collected), whole), "reduce-scatter, then all-gather, equals all-reduce"


def all_to_all(table: torch.Tensor) -> None:
    """Every rank gives each rank a different part: rows become columns. Tokens are sent to experts this way."""
    rank, mine = dist.get_rank(), table[dist.get_rank()]
    x = torch.empty_like(mine)
    show("all-to-all before", mine)
    dist.all_to_all_single(x, mine)  # cuts `mine` into one part for each rank
    show("all-to-all after", x)
    assert torch.equal(x, table[:, rank]), "all-to-all: rank r holds part r of every rank's numbers"


def show(label: str, numbers: torch.Tensor | list[torch.Tensor] | None) -> None:
    """Print what this rank holds."""
    held = torch.cat(numbers) if isinstance(numbers, list) else numbers
    print(f"{label}: {'nothing' if held is None else ' '.join(str(number) for number in held.tolist())}")


def main() -> None:
    """Run the operations one after another and compare each with what one process works out alone."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--op", choices=OPERATIONS, help="show only this operation")
    parser.add_argument("--root", type=int, default=0, help="the root, in the operations that have one")
    parser.add_argument("--reduce", choices=("sum", "max"), default="sum", help="how numbers are combined into one")
    args = parser.parse_args()
    if not 0 <= args.root < int(os.environ["WORLD_SIZE"]):
        raise SystemExit(f"--root {args.root}: there are only ranks 0 to {int(os.environ['WORLD_SIZE']) - 1}.")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=30))

    # Row r of the table is what rank r brings. Any process can build it, so the right answers need no communication.
    ranks = torch.arange(dist.get_world_size(), device=device)
    table = ranks + 10 * ranks[:, None]
    todo = (args.op,) if args.op else OPERATIONS
    if {"broadcast", "scatter", "gather", "reduce"} & set(todo):
        print(f"root: {'this rank' if dist.get_rank() == args.root else 'no'}")
    broadcast_and_scatter(todo, table, args.root)
    gather_and_all_gather(todo, table, args.root)
    reduce_and_all_reduce(todo, table, args.root, dist.ReduceOp.SUM if args.reduce == "sum" else dist.ReduceOp.MAX)
    if "all-to-all" in todo:
        all_to_all(table)
    # dist.barrier() is not among the eight: it makes ranks wait for each other and moves no data.
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
