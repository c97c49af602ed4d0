"""All-reduce: every rank brings a tensor, every rank leaves with the sum.

    torchrun --nproc-per-node 4 demos/allreduce.py

Look at the bytes sent. The same sum is made three ways: by a ring, written
out with sends and receives; through rank 0 as the root; by dist.all_reduce.
In a ring of N ranks a tensor is cut into N chunks that travel round, and
each rank sends 2(N-1)/N of it: 1.5 tensors on 4 ranks, below 2 on any number.
The root sends N-1 tensors while the others wait; added up over the ranks,
both ways cost the same; an all_gather of the counts checks that.

Try    --chunks     follow each chunk round the ring
       --size 6     a tensor that 4 ranks cannot share out evenly
       --sweep      time and bandwidth from 4 KiB to 16 MiB, and a prediction
"""

import argparse
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist


def ring_all_reduce(x: torch.Tensor, trace: bool) -> int:
    """Sum `x` (1-D) over all ranks in place and return the bytes that this rank sent (Patarasuk & Yuan 2009)."""
    rank, world = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % world, (rank - 1) % world
    chunks = x.tensor_split(world)  # views: writing to a chunk writes to x
    sent = 0

    def pass_on(outgoing: int, incoming: int) -> torch.Tensor:
        nonlocal sent
        arrived = torch.empty_like(chunks[incoming])
        # Both at once: if every rank sent first and received afterwards, all would wait for each other.
        to_right, from_left = dist.P2POp(dist.isend, chunks[outgoing], right), dist.P2POp(dist.irecv, arrived, left)
        for request in dist.batch_isend_irecv([to_right, from_left]):
            request.wait()
        sent += chunks[outgoing].nbytes
        return arrived

    # Phase 1, reduce-scatter: partial sums travel round. After N-1 steps rank r owns the full sum of chunk r+1.
    for step in range(world - 1):
        outgoing, incoming = (rank - step) % world, (rank - step - 1) % world
        chunks[incoming].add_(pass_on(outgoing, incoming))
        if trace:
            print(f"reduce-scatter {step + 1} (chunk): {incoming}: {brief(chunks[incoming])}")

    # Phase 2, all-gather: the finished sums travel round once more, and are copied instead of added.
    for step in range(world - 1):
        outgoing, incoming = (rank - step + 1) % world, (rank - step) % world
        chunks[incoming].copy_(pass_on(outgoing, incoming))
        if trace:
            print(f"all-gather {step + 1} (chunk): {incoming}: {brief(chunks[incoming])}")
    return sent


def root_all_reduce(x: torch.Tensor) -> int:
    """Sum `x` over all ranks in place by way of rank 0 and return the bytes that this rank sent."""
    if dist.get_rank() > 0:
        dist.send(x, dst=0)
        dist.recv(x, src=0)
        return x.nbytes

    theirs, sent = torch.empty_like(x), 0
    for peer in range(1, dist.get_world_size()):
        dist.recv(theirs, src=peer)
        x += theirs
    for peer in range(1, dist.get_world_size()):
        dist.send(x, dst=peer)
        sent += x.nbytes
    return sent


def sweep(device: torch.device) -> None:
    """Time dist.all_reduce on growing tensors; rank 0 prints the table."""
    rank, world = dist.get_rank(), dist.get_world_size()
    if rank == 0 and device.type == "cpu" and world > (os.cpu_count() or 1):
        print("More ranks than cores: the time of a small tensor is the scheduler's, not the algorithm's.")
    if rank == 0:
        print("Each time is the fastest of 6. Bytes of the tensor / time is the algbw;")
        print("times 2(N-1)/N it is the busbw, what each of N ranks sends a second.")
        print("The line through 4 and 8192 KiB then predicts the time of 16384 KiB;")
        print("where it begins, at 0 bytes, is the latency.")
    fastest = {}
    for kib in (4, 64, 1024, 8192, 16384):
        x, times = torch.full((kib * 256,), rank + 1.0, device=device), []
        for _ in range(6):
            dist.barrier()
            start = time.perf_counter()
            dist.all_reduce(x)
            if x.is_cuda:
                torch.cuda.synchronize()  # NCCL only queues the work
            times.append(time.perf_counter() - start)
        # The first of the six makes 1 + 2 + .. + N, each later one N times as much.
        assert x.eq(world * (world + 1) / 2 * world**5).all(), "each of the timed all-reduces made the sum"
        t = fastest[kib] = min(times)  # the one that other programs disturbed least
        algbw = x.nbytes / t / 1e6
        busbw = algbw * 2 * (world - 1) / world  # comparable over N (nccl-tests, PERFORMANCE.md)
        if rank == 0:
            print(f"{kib:6} KiB {t * 1e3:8.2f} ms   algbw {algbw:7.1f} MB/s   busbw {busbw:7.1f} MB/s")

    # Two numbers describe it: a latency, and a time for each KiB. Take both from two sizes and predict a third. It is
    # no claim, because other programs take their part of the processor, now from one measurement, now from another.
    per_kib = (fastest[8192] - fastest[4]) / (8192 - 4)
    latency = fastest[4] - 4 * per_kib
    predicted = latency + 16384 * per_kib
    print(f"latency (ms): {latency * 1e3:.2f}")
    print(f"predicted 16384 KiB (ms): {predicted * 1e3:.1f}")
    print(f"measured 16384 KiB (ms): {fastest[16384] * 1e3:.1f}")


def brief(x: torch.Tensor) -> str:
    """The numbers of `x`, the middle left out if there are many."""
    numbers = [f"{number:g}" for number in x.tolist()] or ["empty"]
    return " ".join(numbers if len(numbers) <= 4 else [*numbers[:2], "..", numbers[-1]])


def main() -> None:
    """Make the same sum three ways, count what was sent, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=8, help="numbers in each rank's tensor")
    parser.add_argument("--chunks", action="store_true", help="print every step of the ring")
    parser.add_argument("--sweep", action="store_true", help="measure bandwidth over a few sizes")
    args = parser.parse_args()
    if args.size < 1:
        raise SystemExit(f"--size {args.size}: a tensor to sum holds at least 1 number.")
    if args.sweep and os.environ["WORLD_SIZE"] == "1":
        raise SystemExit("--sweep measures what passes between ranks: start at least 2.")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=30))
    rank, world = dist.get_rank(), dist.get_world_size()

    everyone = torch.stack([torch.arange(args.size, device=device) + 10.0 * r for r in range(world)])
    mine = everyone[rank]
    total = everyone.sum(dim=0)  # the plain answer, for which nothing was sent
    print(f"mine: {brief(mine)}")

    ring, root, theirs = mine.clone(), mine.clone(), mine.clone()
    ring_bytes = ring_all_reduce(ring, args.chunks)
    print(f"after the ring: {brief(ring)}")
    root_bytes = root_all_reduce(root)
    print(f"after a sum at rank 0: {brief(root)}")
    counts = [torch.zeros(2, dtype=torch.int64, device=device) for _ in range(world)]
    dist.all_gather(counts, torch.tensor([ring_bytes, root_bytes], device=device))  # to check the bytes, no more
    in_all = torch.stack(counts).sum(dim=0).tolist()
    dist.all_reduce(theirs)
    print(f"after all_reduce: {brief(theirs)}")
    print(f"bytes of my tensor: {mine.nbytes}")
    print(f"bytes sent by the ring: {ring_bytes}")
    print(f"bytes sent via rank 0: {root_bytes}")

    assert torch.equal(ring, total), "after the ring every rank holds the sum of all ranks' tensors"
    assert torch.equal(root, total), "the way through rank 0, the root, gives every rank the same sum"
    assert torch.equal(theirs, total), "dist.all_reduce gives every rank the same sum"
    if args.size % world == 0:  # otherwise some chunks are one number longer
        assert ring_bytes == 2 * (world - 1) * mine.nbytes // world, (
            "each of the N ranks in the ring sent 2(N-1)/N of its tensor"
        )
    if rank == 0:
        assert root_bytes == (world - 1) * mine.nbytes, "the root, rank 0, sent its tensor N-1 times"
    assert in_all == [2 * (world - 1) * mine.nbytes] * 2, "added up over the ranks, both sent 2(N-1) tensors"

    if args.sweep:
        sweep(device)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
