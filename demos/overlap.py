"""Overlap: gradients travel in buckets while backward is still busy.

    torchrun --nproc-per-node 4 demos/overlap.py

Backward goes from the last layer to the first. When all gradients of a
bucket are ready, DDP all-reduces it and continues computing meanwhile.
Look at the two lines for each size of bucket: the layer in backward, and
below it the bucket on the network. Time beyond the 160 ms that backward takes
by itself is communication that was not hidden.
Computing and sending are sleeps: a time for each layer's backward, one for
its gradient on the network and a latency for each all-reduce. The overlap is
real.

Try    --latency 60     a high latency: 8 buckets are slower than one
       --wire 5         a fast network: nearly all of it is hidden
       --wire 40        a slow network: no size of bucket helps
"""

import argparse
import math
import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

import torch
import torch.distributed as dist
import torch.distributed.nn  # imported after init_process_group, it would keep the group alive (torch 2.13)
from torch.nn.parallel import DistributedDataParallel

WIDTH, COLUMNS = 32, 50  # inputs and outputs of a layer; characters for the longest time in the drawing
spans = {"layer": [], "bucket": []}  # (number, begin, end): what this rank computed and sent, and when
pace = {"rehearsal": True}  # no sleep in the first backward


def compute(number: int, seconds: float, *_: object) -> None:
    """Pretend to compute; called when backward comes to a layer, just before the gradient of its weight is made."""
    start = time.perf_counter()
    time.sleep(0 if pace["rehearsal"] else seconds)
    spans["layer"].append((number, start, time.perf_counter()))


def carry(seconds: float, bucket: int, buffer: torch.Tensor, arrived: torch.futures.Future) -> None:
    """All-reduce a bucket, in the thread that is the wire, and take at least this many seconds for it."""
    start = time.perf_counter()
    dist.all_reduce(buffer)
    time.sleep(max(0.0, start + seconds - time.perf_counter()))
    spans["bucket"].append((bucket, start, time.perf_counter()))
    arrived.set_result(buffer)


def time_backward(ddp: DistributedDataParallel, x: torch.Tensor, order: list[int]) -> tuple[float, float]:
    """Run backward twice; return when the second began and how many seconds it took."""
    # Before the second, DDP rebuilds its buckets in the order in which the gradients came.
    for pace["rehearsal"] in (True, False):
        ddp.zero_grad()
        loss = ddp(x).square().mean()
        for record in (*spans.values(), order):
            record.clear()
        dist.barrier()
        start = time.perf_counter()
        loss.backward()
        seconds = time.perf_counter() - start
    return start, seconds


def compare_times(seconds: float, buckets: list[int], args: argparse.Namespace) -> None:
    """Compare with a simple model: a bucket leaves when its last gradient is ready and the wire is free."""
    per_layer, wire, latency = args.compute / 1000, args.wire / 1000, args.latency / 1000
    ready = expected = 0.0
    for count in buckets:
        ready += count * per_layer
        expected = max(expected, ready) + latency + count * wire
    apart = sum(buckets) * (per_layer + wire) + len(buckets) * latency  # all of backward, then all of the network
    assert len(spans["bucket"]) == len(buckets), "each bucket is one all-reduce"
    if len(buckets) == 1:
        assert seconds > 0.98 * apart, "a single bucket hides nothing: it is sent after backward"
    elif len(buckets) > 2 and wire + latency >= 0.005:  # a busy machine may wake the wire too late for one of two
        assert hidden() > wire / 20, "smaller buckets are sent while earlier layers compute: that time is hidden"
    assert seconds > 0.98 * expected, "a bucket waits for its last gradient and for the bucket before it"


def drawn(what: str, start: float, tick: float) -> str:
    """The spans of layers or buckets as a line of their numbers, one for each `tick` seconds."""
    ticks = [start + (number + 0.5) * tick for number in range(COLUMNS + 10)]
    line = (next((str(number) for number, begin, end in spans[what] if begin <= at < end), " ") for at in ticks)
    return "".join(line).rstrip()


def hidden() -> float:
    """The seconds in which a layer was computed while a bucket was on the wire."""
    both = ((max(a[1], b[1]), min(a[2], b[2])) for a in spans["layer"] for b in spans["bucket"])
    return sum(max(0.0, end - begin) for begin, end in both)


def main() -> None:
    """Run the same backward with four sizes of bucket, and compare its time with what a simple model says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=8, help="layers of the model, 2 to 9")
    parser.add_argument("--compute", type=float, default=20, help="ms that backward takes for a layer")
    parser.add_argument("--wire", type=float, default=15, help="ms that the gradient of a layer is on the wire")
    parser.add_argument("--latency", type=float, default=10, help="extra ms that each all-reduce takes")
    args = parser.parse_args()
    layers, per_layer, wire, latency = args.layers, args.compute / 1000, args.wire / 1000, args.latency / 1000
    if not 2 <= layers <= 9 or not 0.01 <= per_layer <= 0.1 or not 0 <= wire <= 0.1 or not 0 <= latency <= 0.1:
        raise SystemExit("--layers may be 2 to 9, --compute 10 to 100 ms, --wire and --latency 0 to 100 ms.")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=10))
    rank, world = dist.get_rank(), dist.get_world_size()

    # The model, and the gradient that one process gets from the whole batch.
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(layers))).to(device)
    x = torch.randn(world, 4, WIDTH, device=device, requires_grad=True)
    alone = torch.autograd.grad(model(x).square().mean(), list(model.parameters()))
    for number, layer in enumerate(model):
        layer.register_full_backward_pre_hook(partial(compute, number, per_layer))

    the_wire = ThreadPoolExecutor(1)  # one thread: one bucket at a time, while the main thread goes on with backward
    order = []  # in which weights' gradients left

    def send(_: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """What DDP calls for a full bucket, instead of its own all-reduce; it returns at once."""
        order.extend(weight.data_ptr() for weight in bucket.parameters())
        arrived = torch.futures.Future(devices=[device] if device.type == "cuda" else None)
        seconds = 0 if pace["rehearsal"] else latency + len(bucket.parameters()) * wire
        the_wire.submit(carry, seconds, bucket.index(), bucket.buffer().div_(world), arrived)
        return arrived

    tick = math.ceil(100 * layers * (per_layer + wire + latency) / COLUMNS) / 100  # 10 ms, or 20, 30, ...
    if rank == 0:
        print(f"Simulated: {args.compute:g} ms of backward for a layer, {layers * args.compute:g} ms for all,")
        print(f"{args.wire:g} ms on the wire for a layer's gradient, {args.latency:g} ms to start an all-reduce.")
        print(f"Each digit below is {1000 * tick:g} ms of that layer or bucket.", flush=True)
    for size in sorted({1, 2, layers // 2, layers}):  # layers in a bucket
        ddp = DistributedDataParallel(model, bucket_cap_mb=size * alone[0].nbytes / 2**20)
        ddp.register_comm_hook(None, send)

        start, seconds = time_backward(ddp, x[rank], order)
        buckets = [min(size, layers - first) for first in range(0, layers, size)]
        name = f"{len(buckets)} bucket{'s' * (len(buckets) > 1)}"
        print(f"backward ms ({name}): {seconds * 1000:.0f}")
        if rank == 0:
            for before, what in (f"{name:>9}:", "layer"), ("", "bucket"):
                print(f"{before:10} {what:6} {drawn(what, start, tick)}", flush=True)
        for weight, whole in zip(model.parameters(), alone, strict=True):
            assert torch.allclose(weight.grad, whole, atol=1e-6), (
                "with buckets of any size the gradients are those of one process"
            )
        assert order == [weight.data_ptr() for weight in reversed(list(model.parameters()))], (
            "the last layer's gradient is sent first, because backward makes it first"
        )
        compare_times(seconds, buckets, args)
        del ddp  # before the group: DDP still refers to it

    the_wire.shutdown()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
