"""All-reduce: every rank brings a tensor, and every rank leaves with the sum.

    torchrun --nproc-per-node 4 demos/allreduce.py

Follow one number around the ring. Each tensor is cut into N chunks, one for
each of the N ranks. In each of N-1 steps, every rank sends a chunk to its right
neighbor and adds its own numbers to the chunk that arrives; the result is shown
in brackets. Each rank then holds one finished chunk, and in N-1 more steps the
finished chunks are copied around the ring. In total, each rank sends 2(N-1)/N
times its tensor: 1.5 times on 4 ranks, and never as much as twice.

Try    --root       also computes the sum on rank 0: how much does rank 0 send?
       --size 6     a tensor that does not divide evenly among 4 ranks
       --sweep      time and bandwidth for 4 KiB to 16 MiB, and a predicted time
"""

import argparse
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist


def ring_all_reduce(x: torch.Tensor) -> int:
    """Sum `x` (1-D) over all ranks in place and return the bytes that this rank sent (Patarasuk & Yuan 2009)."""
    rank, world = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % world, (rank - 1) % world
    chunks = x.tensor_split(world)  # views: writing to a chunk writes to x
    sent = 0

    def pass_on(outgoing: int, incoming: int) -> torch.Tensor:
        nonlocal sent
        arrived = torch.empty_like(chunks[incoming])
        # Post both at once: if every rank sent first and received afterwards, all ranks would wait for each other.
        to_right, from_left = dist.P2POp(dist.isend, chunks[outgoing], right), dist.P2POp(dist.irecv, arrived, left)
        for request in dist.batch_isend_irecv([to_right, from_left]):
            request.wait()
        sent += chunks[outgoing].nbytes
        return arrived

    # Phase 1, reduce-scatter: partial sums travel around. After N-1 steps rank r holds the full sum of chunk r+1.
    for step in range(world - 1):
        outgoing, incoming = (rank - step) % world, (rank - step - 1) % world
        chunks[incoming].add_(pass_on(outgoing, incoming))
        print(f"reduce-scatter {step + 1}: {marked(chunks, incoming)}")

    # Phase 2, all-gather: the finished sums travel around once more, and are copied instead of added.
    for step in range(world - 1):
        outgoing, incoming = (rank - step + 1) % world, (rank - step) % world
        chunks[incoming].copy_(pass_on(outgoing, incoming))
        print(f"all-gather {step + 1}: {marked(chunks, incoming)}")
    return sent


def root_all_reduce(x: torch.Tensor) -> int:
    """Sum `x` over all ranks in place through rank 0, the root, and return the bytes that this rank sent."""
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


def compare(size: int, root: bool, device: torch.device) -> None:
    """Compute the same sum in a ring, with dist.all_reduce and, if `root`, on rank 0; count the bytes sent."""
    rank, world = dist.get_rank(), dist.get_world_size()
    everyone = torch.stack([torch.arange(size, device=device) + 10.0 * r for r in range(world)])
    mine = everyone[rank]
    total = everyone.sum(dim=0)  # what one process computes, without sending anything
    print(f"mine: {brief(mine)}")

    ring, theirs = mine.clone(), mine.clone()
    ring_bytes = ring_all_reduce(ring)
    dist.all_reduce(theirs)
    print(f"after all_reduce: {brief(theirs)}")
    print(f"bytes of my tensor: {mine.nbytes}")
    print(f"bytes sent (ring): {ring_bytes}")

    assert torch.equal(ring, total), "after the ring all-reduce, every rank holds the sum of all tensors"
    assert torch.equal(theirs, total), "dist.all_reduce gives every rank the same sum"
    if size % world == 0:  # otherwise some chunks are one number longer
        assert ring_bytes == 2 * (world - 1) * mine.nbytes // world, (
            "each of the N ranks in the ring sent 2(N-1)/N times the bytes of its tensor"
        )
    if not root:
        return

    by_root = mine.clone()
    root_bytes = root_all_reduce(by_root)
    print(f"after the root: {brief(by_root)}")
    print(f"bytes sent (root): {root_bytes}")
    in_all = torch.tensor([ring_bytes, root_bytes], device=device)
    dist.all_reduce(in_all)
    assert torch.equal(by_root, total), "every rank gets the sum that was computed on rank 0"
    if rank == 0:
        assert root_bytes == (world - 1) * mine.nbytes, "rank 0 sent its tensor N-1 times"
    assert in_all.tolist() == [2 * (world - 1) * mine.nbytes] * 2, "all ranks together sent 2(N-1) tensors either way"


def sweep(device: torch.device) -> None:
    """Time dist.all_reduce on growing tensors; rank 0 prints the table."""
    rank, world = dist.get_rank(), dist.get_world_size()
    if rank == 0 and device.type == "cpu" and world > (os.cpu_count() or 1):
        print("More ranks than CPU cores: times for small tensors measure the OS scheduler, not the algorithm.")
    if rank == 0:
        print("Each time is the fastest of 6 runs. algbw = bytes of the tensor / time;")
        print("busbw = algbw x 2(N-1)/N: what each of the N ranks sends per second.")
        print("A line through the times for 4 and 8192 KiB predicts that for 16384 KiB;")
        print("its value at 0 bytes is the latency.")
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
        # The first of the six yields 1 + 2 + ... + N, and each later one N times as much.
        assert x.eq(world * (world + 1) / 2 * world**5).all(), "every timed all-reduce gave the right sum"
        t = fastest[kib] = min(times)  # the one that other programs disturbed least
        algbw = x.nbytes / t / 1e6
        busbw = algbw * 2 * (world - 1) / world  # comparable across values of N (nccl-tests, PERFORMANCE.md)
        if rank == 0:
            print(f"{kib:6} KiB {t * 1e3:8.2f} ms   algbw {algbw:7.1f} MB/s   busbw {busbw:7.1f} MB/s")

    # Two numbers describe the times: a latency, and a time per KiB. Fit both to two sizes and predict a third. This is
    # not a claim, because other programs on the machine disturb one measurement or another.
    per_kib = (fastest[8192] - fastest[4]) / (8192 - 4)
    latency = fastest[4] - 4 * per_kib
    predicted = latency + 16384 * per_kib
    print(f"latency (ms): {latency * 1e3:.2f}")
    print(f"predicted 16384 KiB (ms): {predicted * 1e3:.1f}")
    print(f"measured 16384 KiB (ms): {fastest[16384] * 1e3:.1f}")


def marked(chunks: tuple[torch.Tensor, ...], arrived: int) -> str:
    """Format a short tensor with the chunk that arrived in brackets; for a long tensor, only that chunk."""
    if sum(chunk.numel() for chunk in chunks) > 4:
        return f"chunk {arrived} = {brief(chunks[arrived])}"
    return " ".join(f"[{brief(chunk)}]" if number == arrived else brief(chunk) for number, chunk in enumerate(chunks))


def brief(x: torch.Tensor) -> str:
    """Format the numbers of `x`; leave out the middle if there are more than four."""
    numbers = [f"{number:g}" for number in x.tolist()] or ["-"]
    return " ".join(numbers if len(numbers) <= 4 else [*numbers[:2], "..", numbers[-1]])


def main() -> None:
    """Form the group, then compare the sums, or measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, help="numbers in each rank's tensor (default: one for each rank)")
    parser.add_argument("--root", action="store_true", help="also sum on rank 0, and compare the bytes sent")
    parser.add_argument("--sweep", action="store_true", help="measure bandwidth for five tensor sizes instead")
    args = parser.parse_args()
    if args.size is not None and args.size < 1:
        raise SystemExit(f"--size {args.size}: a tensor needs at least 1 number.")
    if args.sweep and os.environ["WORLD_SIZE"] == "1":
        raise SystemExit("--sweep measures messages between ranks: start at least 2 ranks.")

    gpu = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])  # NCCL needs a GPU for each rank
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpu else "gloo", timeout=timedelta(seconds=30))
    if args.sweep:
        sweep(device)
    else:
        compare(args.size or dist.get_world_size(), args.root, device)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
