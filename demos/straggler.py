"""Straggler: one slow rank, and every rank's step is slow.

    torchrun --nproc-per-node 4 demos/straggler.py

A step computes and then all-reduces a gradient, which no rank gets before the
last rank has contributed its own. Computing is a sleep of 20 ms, so that the
times do not depend on this machine's cores; in the second half one rank sleeps
100 ms longer. Look at `waited` there: the straggler is the only rank that does
not wait. In a profile, too, the all-reduce is long on every rank except the
slow one, and a GPU that waits in it counts as busy.

Try    --rotate                a different rank is slow at each step
       --slow 0 --delay 200    the same for rank 0, and twice as late
       --compute 100           the same delay in a longer step costs less
"""

import argparse
import os
import time
from datetime import timedelta
from statistics import mean, median

import torch
import torch.distributed as dist


def train(pauses: list[float], gradient: torch.Tensor) -> list[tuple[float, float]]:
    """Take a step for each of these pauses; return the milliseconds that this rank computed and waited in each."""
    times = []
    dist.barrier()
    start = time.perf_counter()
    for pause in pauses:
        time.sleep(pause / 1e3)  # forward and backward
        computed = time.perf_counter()
        dist.all_reduce(gradient)
        if gradient.is_cuda:
            torch.cuda.synchronize()  # NCCL only queues the work
        done = time.perf_counter()
        times.append(((computed - start) * 1e3, (done - computed) * 1e3))
        print(f"computed (ms): {times[-1][0]:.0f}")
        print(f"waited (ms): {times[-1][1]:.0f}")
        print(f"step (ms): {sum(times[-1]):.0f}")
        start = done  # a step begins where the last one ended, so that no time is lost between them
    return times


def main() -> None:
    """Train with ranks that are equally fast, then with a straggler, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slow", type=int, metavar="RANK", help="the straggler; the last rank unless given")
    parser.add_argument("--delay", type=float, default=100, help="extra milliseconds that it takes")
    parser.add_argument("--rotate", action="store_true", help="a different rank is slow at each step")
    parser.add_argument("--compute", type=float, default=20, help="milliseconds that the other ranks compute")
    parser.add_argument("--steps", type=int, default=8, help="steps with and without the straggler")
    args = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    slow = world - 1 if args.slow is None else args.slow
    if world < 2:
        raise SystemExit("straggler needs at least 2 ranks, so that one can wait: start it with --nproc 2 or more.")
    if not 0 <= slow < world or args.steps < world or args.delay < 50 or args.compute < 0:
        raise SystemExit(
            f"--slow is a rank up to {world - 1}, --steps {world} or more, --delay 50 or more, or it would not show."
        )

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=30))
    gradient = torch.ones(1000, device=device)
    print(f"compute: a sleep of {args.compute:g} ms")

    # 1. All ranks take the same time.
    even = mean(map(sum, train([args.compute] * args.steps, gradient)))

    # 2. With a straggler.
    who = "a rank in turn" if args.rotate else f"rank {slow}"
    print(f"from step {args.steps + 1}: {who} sleeps {args.delay:g} ms more")
    late = [rank == (step % world if args.rotate else slow) for step in range(args.steps)]
    times = train([args.compute + args.delay * is_late for is_late in late], gradient)
    uneven, waited = mean(map(sum, times)), median(wait for _, wait in times)
    busy = mean(compute for compute, _ in times) / uneven
    early, later = f"1-{args.steps}", f"{args.steps + 1}-{2 * args.steps}"
    print(f"mean of steps {early} (ms): {even:.0f}")
    print(f"mean of steps {later} (ms): {uneven:.0f}")
    print(f"busy share (steps {later}): {100 * busy:.0f}%")

    # 3. The slowest rank of each step, which a rank can learn only from the others.
    everyone = torch.empty(world, args.steps, 2, device=device)
    dist.all_gather(list(everyone.unbind()), torch.tensor(times, device=device))
    computes, waits = everyone.unbind(dim=2)
    slowest = computes.amax(dim=0).mean().item()  # the slowest rank of each step
    print(f"mean compute of slowest (ms): {slowest:.0f}")
    assert uneven > args.compute + 0.8 * args.delay, "the delay of one rank is added to the step of every rank"
    assert abs(uneven - slowest) < 0.5 * args.delay, "a step lasts as long as the slowest rank computes"
    if args.rotate:
        assert mean(wait for _, wait in times) > 0.3 * args.delay, (
            "no rank is slow on average, and yet every step is slow"
        )
    else:
        assert waits.median(dim=1).values.argmin() == slow, "the straggler waits least of all ranks"
        assert rank == slow or waited > 0.5 * args.delay, "every other rank waits for as long as the straggler is late"
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
