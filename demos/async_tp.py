"""Async TP: multiply the pieces that are here while the next one is on its way.

    torchrun --nproc-per-node 4 demos/async_tp.py

Each rank holds some rows of X and some columns of W, and needs all rows of X
times its columns. Plain tensor parallelism gathers X and then multiplies. Async
tensor parallelism passes the rows around a ring and multiplies those that it
has while the next ones travel. Neither the result nor the bytes change.
Look at the two lines of each drawing: whose rows rank 0 multiplies (* is all of
them), and below it whose rows are on the way to it. Then compare the two times.
Products and transfers are sleeps, so that the times are steady; the overlap is
real.

Try    --wire 60                a slow network: a part of each transfer shows
       --wire 5 --overhead 20   small matmuls cost more time than is hidden
       --compute 5              little to compute: little to hide behind
"""

import argparse
import os
import time
from collections.abc import Callable

import torch
import torch.distributed as dist

ROWS, WIDTH, COLUMNS = 4, 8, 6  # rows of X and columns of W on each rank, and the width that they share
Span = tuple[str, float, float]  # whose rows, begin and end
spans: dict[str, list[Span]] = {"multiply": [], "transfer": []}


def pass_around(piece: torch.Tensor, wire: float, use: Callable[[int, torch.Tensor], None]) -> None:
    """Call `use` with each rank's rows; the next rows are on their way meanwhile. It is the only difference."""
    rank, world = dist.get_rank(), dist.get_world_size()
    for step in range(world):
        source = (rank - step) % world
        if step < world - 1:
            arriving = torch.empty_like(piece)
            sends = dist.P2POp(dist.isend, piece, (rank + 1) % world)
            receives = dist.P2POp(dist.irecv, arriving, (rank - 1) % world)
            works = dist.batch_isend_irecv([sends, receives])
            start = time.perf_counter()
        use(source, piece)
        if step < world - 1:
            for work in works:
                work.wait()
            time.sleep(max(0.0, start + wire - time.perf_counter()))  # what is left of its time on the wire
            spans["transfer"].append((str((source - 1) % world), start, start + wire))
            piece = arriving


def multiply(whose: str, rows: torch.Tensor, columns: torch.Tensor, seconds: float) -> torch.Tensor:
    """Multiply, and pretend that it takes this many seconds."""
    start = time.perf_counter()
    time.sleep(seconds)
    spans["multiply"].append((whose, start, time.perf_counter()))
    return rows @ columns


def gather_then_multiply(mine: torch.Tensor, columns: torch.Tensor, args: argparse.Namespace) -> torch.Tensor:
    """Plain tensor parallelism: all rows first, then one matmul."""
    world, pieces = dist.get_world_size(), {}
    pass_around(mine, args.wire / 1000, pieces.__setitem__)
    rows = torch.cat([pieces[source] for source in range(world)])
    return multiply("*", rows, columns, (args.overhead + world * args.compute) / 1000)


def multiply_pieces(mine: torch.Tensor, columns: torch.Tensor, args: argparse.Namespace) -> torch.Tensor:
    """Async tensor parallelism: a matmul for each piece, while the next piece travels."""
    products = {}

    def use(source: int, rows: torch.Tensor) -> None:
        products[source] = multiply(str(source), rows, columns, (args.overhead + args.compute) / 1000)

    pass_around(mine, args.wire / 1000, use)
    return torch.cat([products[source] for source in range(dist.get_world_size())])


def hidden() -> float:
    """The seconds in which rows were multiplied while others were on the way."""
    both = ((max(a[1], b[1]), min(a[2], b[2])) for a in spans["multiply"] for b in spans["transfer"])
    return sum(max(0.0, end - begin) for begin, end in both)


def drawn(what: str, start: float, tick: float) -> str:
    """The spans as a line of the ranks whose rows they are about, one character for each `tick` seconds."""
    ticks = [start + (number + 0.5) * tick for number in range(60)]
    line = (next((whose for whose, begin, end in spans[what] if begin <= at < end), " ") for at in ticks)
    return "".join(line).rstrip()


def compare_times(seconds: list[float], args: argparse.Namespace) -> None:
    """Compare with a simple model; sleeps may take longer, never shorter."""
    world = dist.get_world_size()
    product, wire = (args.overhead + args.compute) / 1000, args.wire / 1000
    whole = (world - 1) * wire + (args.overhead + world * args.compute) / 1000
    assert seconds[0] > 0.98 * whole, "one after the other, the times of transfer and matmul add up"
    in_pieces = (world - 1) * max(product, wire) + product
    assert seconds[1] > 0.98 * in_pieces, "each step takes as long as the slower of matmul and transfer"
    # A busy machine may start a matmul late, so half of what should be hidden is enough.
    assert hidden() >= (world - 1) * min(product, wire) / 2, "rows travel while others are multiplied"


def main() -> None:
    """Make the same product both ways, and compare results, bytes and times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compute", type=float, default=30, help="ms to multiply the rows of one rank")
    parser.add_argument("--wire", type=float, default=30, help="ms that the rows of a rank take to reach the next rank")
    parser.add_argument("--overhead", type=float, default=0, help="extra ms that each matmul takes, however small")
    args = parser.parse_args()
    if not all(0 <= each <= 100 for each in (args.compute, args.wire, args.overhead)):
        raise SystemExit("--compute, --wire and --overhead may be 0 to 100 ms.")

    gpu = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    dist.init_process_group("nccl" if gpu else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()

    # Every rank makes the same X and W, and keeps its rows of X and its columns of W.
    torch.manual_seed(0)
    x, w = torch.randn(world * ROWS, WIDTH, device=device), torch.randn(WIDTH, world * COLUMNS, device=device)
    mine, columns = x.chunk(world)[rank], w.chunk(world, dim=1)[rank].contiguous()
    whole = (x @ w).chunk(world, dim=1)[rank]  # what one process computes
    pass_around(mine, 0, {}.__setitem__)  # connects the ranks; the first messages take longer

    seconds = []
    for name, product in ("plain", gather_then_multiply), ("pieces", multiply_pieces):
        spans["multiply"].clear()
        spans["transfer"].clear()
        dist.barrier()
        start = time.perf_counter()
        result = product(mine, columns, args)
        seconds.append(time.perf_counter() - start)
        print(f"ms ({name}): {1000 * seconds[-1]:.0f}")
        if rank == 0:
            print(f"{name:>6}  multiply {drawn('multiply', start, 0.01)}")
            print(f"{'':6}  transfer {drawn('transfer', start, 0.01)}", flush=True)
        assert torch.allclose(result, whole, atol=1e-5), "either way, rows times columns are those of one process"

    print(f"order of matmuls: {' '.join(whose for whose, _, _ in spans['multiply'])}")
    print(f"bytes sent either way: {len(spans['transfer']) * mine.nbytes}")
    print(f"ms hidden: {1000 * hidden():.0f}")
    compare_times(seconds, args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
