"""Launch: what a rank finds when it starts, and how ranks become a group.

    torchrun --nproc-per-node 4 demos/launch.py

The launcher starts the same script N times. The processes differ only in
environment variables, above all RANK and LOCAL_RANK. They find each other
through a key-value store, whose address is in MASTER_ADDR and MASTER_PORT.
Look at what differs between the ranks and what is the same. With --late or
--missing, look at which ranks wait for the one that is late or never joins.

Try    --late 1              rank 1 is late: how long do the others wait?
       --missing 1           rank 1 never joins: how can the others tell who is missing?
       --omit MASTER_ADDR    leaves the variable unset; also RANK, WORLD_SIZE, MASTER_PORT
"""

import argparse
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist

NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # needed to join; LOCAL_RANK only picks your GPU
GIVEN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")
LATE = 1.0  # seconds


def join(seconds: float) -> tuple[float, str]:
    """Join the group; return the seconds that it took and, if it failed, the message."""
    start, said = time.monotonic(), ""
    try:
        # Gloo, even with GPUs: it connects all ranks right here. NCCL does so only at the first collective.
        dist.init_process_group("gloo", timeout=timedelta(seconds=seconds))
    except (ValueError, RuntimeError) as error:
        said = f"{type(error).__name__}: {error}"
        print(f"Joining raised {said}")
    return time.monotonic() - start, said


def miss(store: dist.Store, rank: int, others: list[int], seconds: float) -> None:
    """Join as one of `others`, or stay away until they have given up."""
    if rank not in others:
        print("state: busy elsewhere")
        store.wait([f"gave up/{r}" for r in others], timedelta(seconds=seconds + 30))
        return
    print("state: joining")
    store.set(f"joining/{rank}", "now")
    waited, said = join(seconds)
    print(f"state: gave up after {waited:.1f} s")
    # The error gives only a key and a time. The store shows which rank is missing, if each left its number there.
    absent = [r for r in range(len(others) + 1) if not store.check([f"joining/{r}"])]
    print(f"missing: {' '.join(map(str, absent))}")
    store.set(f"gave up/{rank}", "now")
    assert said, "while one of its ranks is missing, the group cannot form"
    assert waited > seconds / 2, "the others waited for the missing rank until the timeout"
    assert [r for r in range(len(others) + 1) if r not in others] == absent, "the store shows which rank never joined"


def introduce(rank: int, waited: float, late: int | None) -> None:
    """Say who is here: each rank sends its numbers to all."""
    world, node, local_rank = (int(os.environ.get(name, "0")) for name in ("WORLD_SIZE", "GROUP_RANK", "LOCAL_RANK"))
    mine = []  # one name in the script, one list in each process
    mine.append(rank)
    facts = torch.tensor([rank, node, local_rank, os.getpid(), len(mine), round(waited * 1000)])
    everybody = [torch.empty_like(facts) for _ in range(world)]
    dist.all_gather(everybody, facts)
    ranks, nodes, local_ranks, pids, lengths, waits = torch.stack(everybody).T.tolist()
    print(f"joined: {' '.join(map(str, ranks))}")
    print(f"my list after append: {mine}")
    if rank == 0:
        print("All ranks ran the same append, but each on its own list.")

    assert (dist.get_rank(), dist.get_world_size()) == (rank, world), (
        "the group takes rank and size from RANK and WORLD_SIZE"
    )
    assert sorted(ranks) == list(range(world)), "the ranks are 0 to N-1, each exactly once"
    assert len(set(zip(nodes, pids, strict=True))) == world, "each rank is a process of its own"
    neighbors = sorted(local for local, on in zip(local_ranks, nodes, strict=True) if on == node)
    local_world = int(os.environ["LOCAL_WORLD_SIZE"])
    assert neighbors == list(range(local_world)), "the local ranks on a node are 0, 1, 2 and so on"
    assert lengths == [1] * world, "a variable belongs to one process: no rank sees what the others append"
    if late is not None:
        on_time = [wait for r, wait in enumerate(waits) if r != late]
        assert min(on_time) > LATE * 1000 / 2, "every other rank waited for the late one"  # half: a busy machine
        assert waits[late] < min(on_time), "the late rank itself waited least"


def show_environment(device: torch.device) -> None:
    """Print what the launcher wrote into the environment of this process."""
    for name in GIVEN:
        print(f"{name.lower()}: {os.environ.get(name, 'not set')}")
    print(f"device: {device}")
    print(f"pid: {os.getpid()}")


def main() -> None:
    """Show the environment, then join: on time, late, without one rank or without one variable."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    unusual = parser.add_mutually_exclusive_group()
    unusual.add_argument("--late", type=int, metavar="RANK", help="this rank joins one second late")
    unusual.add_argument("--missing", type=int, metavar="RANK", help="this rank never joins")
    unusual.add_argument("--omit", choices=NEEDED, help="do not set this variable")
    parser.add_argument("--timeout", type=float, default=2, help="seconds that the others wait for a missing rank")
    args = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    guest = args.missing if args.late is None else args.late
    if guest is not None and (world < 2 or not 0 <= guest < world):
        raise SystemExit(f"This needs rank {guest} and another rank to wait for it, but {world} rank(s) were started.")

    # 1. What the launcher wrote into the environment of this process.
    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(
        os.environ["LOCAL_WORLD_SIZE"]
    ):  # a GPU for each rank: the local rank says which
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    if args.omit:
        del os.environ[args.omit]
    if rank == 0:
        print("The lines from rank to master_port are environment variables; group_rank is the node's number.")
    show_environment(device)
    if args.omit:
        _, said = join(30)
        assert f"environment variable {args.omit} expected" in said, (
            "joining fails, and the error names the variable that is not set"
        )
        return

    # 2. Meet in the store, so that the clocks below start together however long each process took to start.
    store, _, _ = next(dist.rendezvous("env://", timeout=timedelta(seconds=30)))
    store.set(f"awake/{rank}", "now")
    store.wait([f"awake/{r}" for r in range(world)], timedelta(seconds=30))
    if args.missing is not None:
        miss(store, rank, [r for r in range(world) if r != args.missing], args.timeout)
        return

    # 3. Join. No rank goes on before the last one has come.
    if rank == args.late:
        time.sleep(LATE)
    waited, said = join(30)
    if said:
        raise SystemExit(said)
    print(f"waited to join: {waited:.2f} s")
    introduce(rank, waited, args.late)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
