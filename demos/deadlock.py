"""Deadlock: ranks that do not make the same calls wait, or sum wrong numbers.

    torchrun --nproc-per-node 4 demos/deadlock.py

Look at `calls`: g1 and g2 are all-reduces of gradients. The mistake: only
rank 0 asks for the loss. Then look at `came out` below `right`, what each of
the calls should give; a `-` stands for a call that never did. And who ends
with an error? Not only the rank that does has wrong numbers.
A collective has no name. The k-th call of a rank meets the k-th call of every
other rank, so rank 0's loss is added to the others' gradient, and rank 0
comes out one call ahead: it waits in a call that nobody else will ever make.
The same mistake once more under TORCH_DISTRIBUTED_DEBUG=DETAIL, torch's own
check of each call: what does that find, and what not?

Try    --mistake swapped    odd ranks call in another order: no error at all
       --mistake order      rank 0 reduces, others broadcast: named by DETAIL
       --mistake p2p        everybody receives first, so nobody gets to send
"""

import argparse
import os
import re
import time
from datetime import timedelta

import torch
import torch.distributed as dist

SCALES = {"g1": 10, "loss": 1, "g2": 100}  # rank r brings (r + 1) times as much to each sum


def calls_of(rank: int, mistake: str) -> list[str]:
    """What a rank calls in one step, in order."""
    if mistake == "branch" and rank > 0:  # `if rank == 0: dist.all_reduce(loss)`
        return ["g1", "g2"]
    if mistake == "swapped" and rank % 2 == 1:  # the order of a set, of threads, of a dictionary built by hand
        return ["loss", "g1", "g2"]
    if mistake == "order" and rank > 0:  # the others fetch a flag before they reduce
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


def step(mistake: str, limit: float, label: str) -> tuple[list[float], str, str]:
    """One step in a group whose calls wait for `limit` seconds; return what came out, how it ended, and the error."""
    dist.barrier()  # everybody is here: from now on, who waits does so for the mistake
    group = dist.new_group(timeout=timedelta(seconds=limit))  # of its own: after a time-out a group is of no use
    results, error, start = [], "", time.perf_counter()
    for call in calls_of(dist.get_rank(), mistake):
        print(f"{label}: {call}", flush=True)
        try:
            results.append(make(call, group))
        except RuntimeError as wrong:
            error = str(wrong)
            break
    took = time.perf_counter() - start
    if not error:
        return results, "no error", ""
    return results, "time-out" if took > limit / 2 else "error at once", error


def brief(numbers: list[float], calls: list[str]) -> str:
    """What came out of each of these calls, and a `-` for each that never did."""
    return " ".join([f"{number:g}" for number in numbers] + ["-"] * (len(calls) - len(numbers)))


def main() -> None:
    """Make the mistake, make it again under DETAIL, then do it right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mistake", choices=["branch", "swapped", "order", "p2p"], default="branch", help="which one")
    parser.add_argument("--timeout", type=float, default=1.5, help="seconds that a call may wait; torch's own: 1800")
    args = parser.parse_args()
    rank, world, mistake = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), args.mistake
    if world < 2:
        raise SystemExit("deadlock needs at least 2 ranks, one to wait for another: start it with --nproc 2 or more.")
    # On the CPU even if there are GPUs: NCCL's watchdog ends the process, and nobody could look at it afterwards.
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))

    # 1. What should come out, if every rank made all the calls in one order.
    sums = {call: scale * world * (world + 1) / 2 for call, scale in SCALES.items()}
    sums |= {"broadcast": 1, "receive": (rank - 1) % world + 1, "send": rank + 1}
    right = [sums["g1"], sums["loss"], sums["g2"]]
    calls = calls_of(rank, mistake)
    print(f"calls: {' '.join(calls)}")
    print(f"right: {brief([sums[call] for call in calls], calls)}")
    if rank == 0:
        print("The barriers are not part of the mistake: there the ranks meet again.")

    # 2. The mistake. Calls are paired by their number: the k-th of this rank with the k-th of every other.
    results, ended, _ = step(mistake, args.timeout, "last call")
    print(f"came out: {brief(results, calls)}")
    print(f"ended with: {ended}")
    plans = [calls_of(peer, mistake) for peer in range(world)]
    meeting = [
        float(sum((peer + 1) * SCALES.get(call, 1) for peer, call in enumerate(kth)))
        for kth in zip(*plans, strict=False)
    ]
    if mistake in ("branch", "swapped"):
        assert results == meeting, "a collective sums each rank's k-th call, whatever each of them meant by it"
        assert results[1] != right[1], "the numbers are wrong on every rank, with an error or without one"
    if mistake == "swapped":
        assert ended == "no error", "all-reduces of one shape in another order raise no error"
    elif mistake != "branch" or rank == 0:
        assert ended == "time-out", "a call that not all ranks make ends only with the time-out"
    else:
        assert ended == "no error", "the ranks that left the call out see no error: only the one that waits complains"

    # 3. Once more with the variable that one sets to find it. It must be set before the group is made.
    if rank == 0:
        print("Again with TORCH_DISTRIBUTED_DEBUG=DETAIL, then without the mistake.")
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
    dist.set_debug_level_from_env()  # torch reads it when it is imported
    _, ended, error = step(mistake, args.timeout, "last call under detail")
    met = re.findall(r"OpType=(\w+)", error)  # of this rank, and of one that called something else
    print(f"ended under detail: {ended}")
    if rank == 0:
        first_line = re.sub(r"\[[^]]*\]:? ", "", error.partition("\n")[0])  # without its place in Gloo's source
        print(f"DETAIL says: {' here, elsewhere '.join(met) or first_line or 'nothing'}")
    if mistake == "branch" and rank == 0:
        absent = ", ".join(str(peer) for peer in range(1, world))
        assert f"Ranks {absent} failed to pass monitoredBarrier" in error, "DETAIL names the ranks that never came"
    elif mistake == "order":
        assert ended == "error at once", "DETAIL compares the calls before they run: nobody waits"
        assert set(met) == {"ALLREDUCE", "BROADCAST"}, "DETAIL names the operations that met"
    elif mistake == "swapped":
        assert ended == "no error", "DETAIL compares operation and shape, not meaning: it finds nothing either"
    elif mistake == "p2p":
        assert ended == "time-out", "DETAIL does not compare sends with receives: they wait as before"

    # 4. The cure: every rank makes every call, in one order, and only what is done with the result depends on the rank.
    results, _, _ = step("none", 30, "last call (cured)")
    print(f"cured (g1 loss g2): {brief(results, list(SCALES))}")
    assert results == right, "the same calls in the same order on every rank: all sums are right"
    if rank == 0:
        print("On a cluster: DETAIL or dist.monitored_barrier() name who is missing; NCCL's flight recorder")
        print("(TORCH_FR_BUFFER_SIZE) keeps each rank's last calls; py-spy dump shows where a process stands.")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
