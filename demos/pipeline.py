"""Pipeline: stages work at the same time, each on a different micro-batch.

    torchrun --nproc-per-node 4 demos/pipeline.py

Each of p ranks is one stage of a model. With the batch in one piece, only
one stage works at a time. Cut into m micro-batches, all stages work at once,
except in the bubble: while the pipeline fills and drains, every stage is idle
for (p-1)/(m+p-1) of the step. Look at `clock`, measured: F is a forward, B a
backward, a dot is idle. GPipe and 1F1B have the same number of dots; they
differ in `micro-batches kept`, the most whose activations are in memory at
once. Computing is a sleep, equally long for the whole batch with any m.

Try    --micro-batches 1        no overlap: p-1 of p parts of a step are idle
       --micro-batches 8        a shorter step; GPipe keeps 8, 1F1B still p
       --backward 2             backward takes twice as long: the same share
"""

import argparse
import os
import time
from copy import deepcopy
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn.functional import mse_loss

BATCH, WIDTH, COMPUTE = 24, 16, 0.3  # COMPUTE: seconds of a stage's forward, for the whole batch


def gpipe(m: int) -> list[tuple[str, int]]:
    """Return the work of a stage, with its micro-batches: all forwards, then all backwards (Huang et al. 2019)."""
    return [("F", i) for i in range(m)] + [("B", i) for i in range(m)]


def one_f_one_b(m: int, ahead: int) -> list[tuple[str, int]]:
    """A few forwards to fill the stages below, then each backward as soon as it can be (Narayanan et al. 2019)."""
    order = [("F", i) for i in range(min(ahead, m))]
    for i in range(m):
        order.append(("B", i))
        if ahead + i < m:
            order.append(("F", ahead + i))
    return order


def receive(like: torch.Tensor, source: int, group: dist.ProcessGroup) -> torch.Tensor:
    """Receive a tensor with the shape of `like`."""
    tensor = torch.empty_like(like)
    dist.recv(tensor, source, group)
    if tensor.is_cuda:
        torch.cuda.synchronize()  # NCCL's recv returns before the numbers are there
    return tensor


def train_step(layers: torch.nn.Module, order: list, batch: tuple, sleeps: dict, ways: list) -> tuple:
    """Do `order`; returns when each piece of work began and ended, and the most micro-batches kept at once."""
    rank, last, (xs, ys), (down, up) = dist.get_rank(), dist.get_world_size() - 1, batch, ways
    kept, peak, spans, sends = {}, 0, [], []
    for kind, i in order:
        if kind == "F":
            x = xs[i] if rank == 0 else receive(xs[i], rank - 1, down).requires_grad_()
        else:
            slope = receive(xs[i], rank + 1, up) if rank < last else None
        print(f"last started: {kind}{i}", flush=True)
        start = time.perf_counter()
        time.sleep(sleeps[kind])
        if kind == "F":  # gradients will add up over the micro-batches, so the loss of each counts for 1/m
            output = layers(x) if rank < last else mse_loss(layers(x), ys[i]) / len(ys)
            kept[i] = x, output  # until its backward: this is the memory that a schedule costs
            peak = max(peak, len(kept))
        else:
            x, output = kept.pop(i)
            output.backward(slope)
        spans.append((start, time.perf_counter(), kind))
        # The stage goes on while its result travels: isend, and nobody waits before the end.
        if kind == "F" and rank < last:
            sends.append(dist.isend(output.detach(), rank + 1, down))
        if kind == "B" and rank > 0:
            sends.append(dist.isend(x.grad, rank - 1, up))
    for send in sends:
        send.wait()
    return spans, peak


def clock(spans: list, start: float, seconds: float, ticks: int, lengths: dict) -> str:
    """The step as `ticks` characters: each piece of work from the tick at which it began, as long as `lengths` says."""
    drawn = ""
    for begin, _, kind in spans:
        drawn = drawn.ljust(round((begin - start) / seconds * ticks), ".") + kind * lengths[kind]
    return drawn.ljust(ticks, ".")


def main() -> None:
    """Train one step with both schedules; compare gradients, time and memory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--micro-batches", type=int, choices=(1, 2, 3, 4, 6, 8, 12, 24), default=4, help="m")
    parser.add_argument("--backward", type=int, choices=(1, 2, 3), default=1, help="how many forwards long")
    args = parser.parse_args()
    rank, p, m = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), args.micro_batches

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=10))

    # 1. A layer a stage. The whole model is there to compare with: one process, the batch in one piece.
    torch.manual_seed(0)
    layers = [torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()) for _ in range(p)]
    whole = torch.nn.Sequential(*layers).to(device)
    x, y = torch.randn(2, BATCH, WIDTH).to(device)
    expected = torch.autograd.grad(mse_loss(whole(x), y), list(whole[rank].parameters()))
    batch = x.chunk(m), y.chunk(m)  # in micro-batches

    # 2. Both schedules. The ways down and up have a group each, or NCCL would queue one behind the other.
    ways = [dist.new_group(), dist.new_group()]
    sleeps = {"F": COMPUTE / m, "B": COMPUTE * args.backward / m}
    formula = (p - 1) / (m + p - 1)
    print(f"setting: p = {p} stages, m = {m} micro-batches")
    print(f"compute is a sleep: F {sleeps['F'] * 1e3:.0f} ms, B {sleeps['B'] * 1e3:.0f} ms")
    print(f"idle share (formula): {formula:.2f}")
    for name, order in (("gpipe", gpipe(m)), ("1f1b", one_f_one_b(m, ahead=p - rank))):
        stage = deepcopy(whole[rank])
        dist.barrier()
        start = time.perf_counter()
        spans, peak = train_step(stage, order, batch, sleeps, ways)
        dist.barrier()
        took = time.perf_counter() - start
        idle = 1 - sum(end - begin for begin, end, _ in spans) / took
        ticks, lengths = (m + p - 1) * (1 + args.backward), {"F": 1, "B": args.backward}
        print(f"clock ({name}): {clock(spans, start, took, ticks, lengths)}")
        print(f"idle share ({name}): {idle:.2f}")
        print(f"micro-batches kept ({name}): {peak}")
        print(f"step ({name}): {took:.2f} s")
        for weights, right in zip(stage.parameters(), expected, strict=True):
            assert torch.allclose(weights.grad, right, atol=1e-7), "micro-batches add up to one process's gradients"
        if sleeps["F"] >= 0.03:  # less would drown in what messages and a busy machine take
            assert abs(idle - formula) < 0.15, "with both schedules (p-1)/(m+p-1) of the step is idle, within 0.15"
        if name == "gpipe":
            assert peak == m, "GPipe keeps the activations of all m micro-batches on every stage"
        else:
            assert peak == min(m, p - rank), "1F1B keeps at most p micro-batches on the first stage, 1 on the last"

    # 3. Torch's own 1F1B takes the same step.
    if device.type == "cpu" and torch.__version__ < "2.10":
        print("torch's Schedule1F1B is left out, since before torch 2.10 it fails on Gloo")
    elif m >= p:  # which it asks for
        theirs = PipelineStage(deepcopy(whole[rank]), rank, p, device)
        schedule = Schedule1F1B(theirs, m, loss_fn=mse_loss)
        schedule.step(*([x] if rank == 0 else []), target=y if rank == p - 1 else None)
        for weights, right in zip(theirs.submod.parameters(), expected, strict=True):
            assert torch.allclose(weights.grad, right, atol=1e-7), "torch's Schedule1F1B makes the same gradients"
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
