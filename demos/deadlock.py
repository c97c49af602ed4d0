"""Deadlock: ranks whose calls differ get stuck, or sum the wrong numbers.

    torchrun --nproc-per-node 4 demos/deadlock.py

Each rank sums two gradients, g1 and g2. By mistake rank 0 also sums its loss
between them. Collectives have no names: the k-th call of one rank meets the
k-th call of every other rank. So rank 0's loss is added to the others' g2,
and rank 0's own g2 waits for a call that no other rank will make.
Compare `actual` with `expected`; a `-` is a call that never finished. Only rank 0
gets an error, but every rank has a wrong number. The others wait `in a
barrier` only so that no rank exits before rank 0 has its error.

Try    --mistake none       the same calls on every rank
       --mistake swapped    odd ranks make their calls in a different order: no error at all
       --mistake order      rank 0 reduces while the others broadcast
       --mistake p2p        every rank receives first, so none ever sends
       --detail             what TORCH_DISTRIBUTED_DEBUG=DETAIL finds
"""

import argparse
import os
import re
import time
from datetime import timedelta

import torch
import torch.distributed as dist

SCALES = {"g1": 10, "loss": 1, "g2": 100}  # rank r contributes (r + 1) times as much to each sum


def calls_of(rank: int, mistake: str) -> list[str]:
    """Return the calls of a rank, in order."""
    if mistake == "branch" and rank > 0:  # `if rank == 0: dist.all_reduce(loss)`
        return ["g1", "g2"]
    if mistake == "swapped" and rank % 2 == 1:  # for example, the order of a set or of threads
        return ["loss", "g1", "g2"]
    if mistake == "order" and rank > 0:  # the others fetch a flag first
        return ["g1", "broadcast", "loss"]
    if mistake == "p2p":
        return ["receive", "send"]
    return ["g1", "loss", "g2"]


def make(call: str, group: dist.ProcessGroup) -> float:
    """Make one call and return what came out."""
    rank, world = dist.get_rank(), dist.get_world_size()
    x = torch.tensor([float((rank + 1) * SCALES.get(call, 1))])
    if call == "receive":
        dist.recv(x, src=(rank - 1) % world, group=group)
    elif call == "send":
        dist.send(x, dst=(rank + 1) % world, group=group)
    elif call == "broadcast":
        dist.broadcast(x, src=0, group=group)
    else:
        dist.all_reduce(x, group=group)
    return x.item()


def attempt(calls: list[str], limit: float) -> tuple[list[float], str, str]:
    """Make these calls, each of which waits for at most `limit` seconds.

    Returns what came out of the calls that ended, how the last one ended, and its error.
    """
    dist.barrier()  # start together, so that a rank waits later only because of the mistake
    group = dist.new_group(timeout=timedelta(seconds=limit))  # a separate one: after a timeout a group is useless
    results, error, start = [], "", time.perf_counter()
    for call in calls:
        print(f"last call: {call}", flush=True)
        try:
            results.append(make(call, group))
        except RuntimeError as wrong:
            error = str(wrong)
            break
    took = time.perf_counter() - start
    if not error:
        print("then: in a barrier", flush=True)
    dist.barrier()  # stay alive until every rank is done: the others would notice at once if a rank exited
    if not error:
        return results, "no error", ""
    return results, "timeout" if took > limit / 2 else "error at once", error


def brief(numbers: list[float], calls: list[str]) -> str:
    """Format the result of each call, with a `-` for each call that did not end."""
    return " ".join([f"{number:g}" for number in numbers] + ["-"] * (len(calls) - len(numbers)))


def check(mistake: str, results: list[float], right: list[float], ended: str) -> None:
    """Claim what follows from the mistake."""
    rank, world = dist.get_rank(), dist.get_world_size()
    plans = [calls_of(peer, mistake) for peer in range(world)]
    meeting = [
        float(sum((peer + 1) * SCALES.get(call, 1) for peer, call in enumerate(kth)))
        for kth in zip(*plans, strict=False)
    ]
    if mistake == "none":
        assert results == right, "with the same calls in the same order on every rank, all sums are right"
        return
    if mistake in ("branch", "swapped"):
        assert results == meeting, "the k-th calls of all ranks were added up, whatever each one was meant for"
        assert results[1] != right[1], "every rank has a wrong number, with or without an error"
    if mistake == "swapped":
        assert ended == "no error", "all-reduces of the same shape in a different order raise no error"
    elif mistake != "branch" or rank == 0:
        assert ended == "timeout", "a call that some ranks never make ends only at the timeout"
    else:
        assert ended == "no error", "the ranks that made fewer calls see no error"


def check_detail(mistake: str, ended: str, error: str) -> None:
    """Claim what DETAIL, torch's own check before each call, finds out about the mistake."""
    rank, world = dist.get_rank(), dist.get_world_size()
    met = re.findall(r"OpType=(\w+)", error)  # this rank's call, and that of a rank that made a different one
    if rank == 0:
        first_line = re.sub(r"\[[^]]*\]:? ", "", error.partition("\n")[0])  # without its place in Gloo's source
        print(f"DETAIL says: {' here, elsewhere '.join(met) or first_line or 'nothing'}")
    if mistake == "branch" and rank == 0:
        absent = ", ".join(str(peer) for peer in range(1, world))
        assert f"Ranks {absent} failed to pass monitoredBarrier" in error, "DETAIL names the missing ranks"
    elif mistake == "order":
        assert ended == "error at once", "DETAIL compares the calls before they run, so no rank waits"
        assert set(met) == {"ALLREDUCE", "BROADCAST"}, "DETAIL names the two operations"
    elif mistake == "swapped":
        assert ended == "no error", "DETAIL compares operations and shapes, not meanings: it finds nothing"
    elif mistake == "p2p":
        assert ended == "timeout", "DETAIL does not compare sends with receives: they wait as before"


def main() -> None:
    """Make the mistake and compare what came out with what is right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    choices = ["branch", "swapped", "order", "p2p", "none"]
    parser.add_argument("--mistake", choices=choices, default="branch", help="what the ranks do wrong")
    parser.add_argument("--detail", action="store_true", help="let torch check each call before it runs")
    parser.add_argument("--timeout", type=float, default=1.5, help="seconds that a call may wait; torch default: 1800")
    args = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if world < 2:
        raise SystemExit("deadlock needs at least 2 ranks, one to wait for another: start it with --nproc 2 or more.")
    # On the CPU even if there are GPUs: NCCL's watchdog would end the process, and there would be nothing to see.
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
    if args.detail:  # before the group is made; a training script has it set from outside
        os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
        dist.set_debug_level_from_env()  # torch read the variable when it was imported

    sums = {call: scale * world * (world + 1) / 2 for call, scale in SCALES.items()}
    sums |= {"broadcast": 1, "receive": (rank - 1) % world + 1, "send": rank + 1}
    calls = calls_of(rank, args.mistake)
    print(f"calls: {' '.join(calls)}")
    print(f"expected: {brief([sums[call] for call in calls], calls)}")
    results, ended, error = attempt(calls, args.timeout)
    print(f"actual: {brief(results, calls)}")
    print(f"ended with: {ended}")
    if args.detail:
        check_detail(args.mistake, ended, error)
    else:
        check(args.mistake, results, [sums["g1"], sums["loss"], sums["g2"]], ended)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
