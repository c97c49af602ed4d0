"""Model parallelism: a model is cut into stages; while one works, the others wait.

    torchrun --nproc-per-node 4 demos/model_parallel.py

A model that is too large for one device is cut up: each rank holds only a few
consecutive layers. The batch enters at rank 0, every rank sends its
activations to the next, the last rank computes the loss, and gradients come
back the same way. Look at `last started`: the work goes down the ranks and back
up. Then look at the busy share of the time: about 1/N for each of N ranks.
One step checks the gradients and counts the bytes sent; two more are timed. In
those, a sleep stands in for each layer's computation, forward and backward.

Try    on 1 rank, then 4     less of the model on each rank, but a step takes no less time
       --batch 320           activations grow tenfold, and so do the bytes sent
       --width 128           weights grow about fourfold, the bytes sent twofold
"""

import argparse
import os
import time
from collections import Counter
from copy import deepcopy
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss

STEPS = 2  # that are timed
sent = Counter()  # bytes that this rank sent


def send(tensor: torch.Tensor, target: int, what: str) -> None:
    """Send a tensor and count its bytes."""
    dist.send(tensor.contiguous(), target)
    sent[what] += tensor.nbytes


def receive(like: torch.Tensor, source: int) -> torch.Tensor:
    """Receive a tensor with the shape of `like`."""
    tensor = torch.empty_like(like)
    dist.recv(tensor, source)
    if tensor.is_cuda:
        torch.cuda.synchronize()  # NCCL's recv returns before the numbers are there
    return tensor


def train_step(stage: torch.nn.Sequential, x: torch.Tensor, y: torch.Tensor, sleep: float) -> float:
    """Take the batch through this rank's stage and its gradient back; returns the seconds that the rank was busy."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1

    # 1. Forward: wait for the stage before, compute, pass on.
    if rank > 0:
        x = receive(x, rank - 1).requires_grad_()
    print("last started: forward", flush=True)
    start = time.perf_counter()
    time.sleep(sleep * len(stage))
    output = stage(x)
    busy = time.perf_counter() - start
    if rank < last:
        send(output.detach(), rank + 1, "activations")

    # 2. Backward: the last stage computes the loss, and only it needs the labels.
    end = output if rank < last else mse_loss(output, y)
    slope = receive(output, rank + 1) if rank < last else None
    print("last started: backward", flush=True)
    start = time.perf_counter()
    time.sleep(sleep * len(stage))
    end.backward(slope)
    busy += time.perf_counter() - start
    if rank > 0:
        send(x.grad, rank - 1, "gradients")
    return busy


def compare_gradients(stage: torch.nn.Sequential, whole: torch.nn.Sequential, first: int, batch: torch.Tensor) -> None:
    """Take one step without sleeps, and compare gradients with those of the uncut model."""
    x, y = batch
    uncut = whole[first : first + len(stage)]  # the same layers
    train_step(stage, x, y, sleep=0)
    mse_loss(whole(x), y).backward()
    for mine, theirs in zip(stage.parameters(), uncut.parameters(), strict=True):
        assert torch.allclose(mine.grad, theirs.grad, atol=1e-7), "each stage's gradients are those of the uncut model"
    print(f"activation bytes sent: {sent['activations']}")
    print(f"gradient bytes sent: {sent['gradients']}")
    traveled = over_ranks(sent.total(), x.device)
    if dist.get_world_size() > 1:
        assert traveled == 2 * (dist.get_world_size() - 1) * x.nbytes, (
            "across each cut, only one batch of activations and its gradient are sent"
        )


def measure(stage: torch.nn.Sequential, batch: torch.Tensor, args: argparse.Namespace) -> None:
    """Time the same step with sleeps."""
    x, y = batch
    print(f"timed: {STEPS} steps; each layer sleeps {1e3 * args.sleep:g} ms each way")
    dist.barrier()
    start = time.perf_counter()
    busy = sum(train_step(stage, x, y, args.sleep) for _ in range(STEPS))
    dist.barrier()
    seconds = time.perf_counter() - start
    share, fair = busy / seconds, len(stage) / args.layers
    alone = 2 * args.sleep * args.layers  # one device, one layer after the other
    print(f"seconds a step: {seconds / STEPS:.3f}")
    print(f"seconds on one device (formula): {alone:.3f}")
    print(f"share of all layers: {fair:.2f}")
    print(f"busy share of the time: {share:.2f}")

    slowest, together = over_ranks(seconds, x.device, dist.ReduceOp.MAX), over_ranks(share, x.device)
    if args.sleep >= 0.01:  # less would drown in the time that messages and a busy machine take
        assert slowest / STEPS > 0.99 * alone, "a step takes no less time than on one device"
        assert 0.5 * fair < share < 1.5 * fair, "a rank is busy for its share of the layers, and otherwise waits"
        assert 0.5 < together < 1.2, "all ranks together are busy about as long as one device would be"


def over_ranks(number: float, device: torch.device, op: dist.ReduceOp = dist.ReduceOp.SUM) -> float:
    """Return the sum of all ranks' numbers, or whatever else `op` makes of them."""
    total = torch.tensor(number, dtype=torch.float64, device=device)
    dist.all_reduce(total, op)
    return total.item()


def main() -> None:
    """Cut a model over the ranks, compare its gradients with the uncut model's, then time it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=8, help="layers of the whole model")
    parser.add_argument("--width", type=int, default=64, help="inputs and outputs of each layer")
    parser.add_argument("--batch", type=int, default=32, help="samples in the batch")
    parser.add_argument("--sleep", type=float, default=0.02, help="seconds a layer sleeps, in forward and in backward")
    args = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if args.layers < world:
        raise SystemExit(f"A model of {args.layers} layers has work for {args.layers} ranks at most, not for {world}.")
    if min(args.width, args.batch) < 1 or not 0 <= args.sleep * args.layers <= 2:
        raise SystemExit("--width and --batch need 1 or more; --sleep times --layers may be 2 seconds at most.")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    # The first backward from a given gradient makes torch load modules: do that now, not while other ranks wait.
    torch.ones(1, requires_grad=True).backward(torch.ones(1))
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=10))

    # Cut the model. The uncut one is there to compare with; a model that needs cutting would not fit.
    torch.manual_seed(0)
    whole = torch.nn.Sequential(
        *(torch.nn.Sequential(torch.nn.Linear(args.width, args.width), torch.nn.Tanh()) for _ in range(args.layers))
    ).to(device)
    batch = torch.randn(2, args.batch, args.width).to(device)
    held = torch.arange(args.layers).tensor_split(world)[rank].tolist()
    stage = deepcopy(whole[held[0] : held[-1] + 1])
    size, own = (sum(weight.numel() for weight in model.parameters()) for model in (whole, stage))
    print(f"layers held: {' '.join(map(str, held))}")
    print(f"parameters held: {own}")
    assert over_ranks(own, device) == size, "together, the stages make up one model: no layer is held twice"
    compare_gradients(stage, whole, held[0], batch)
    measure(stage, batch, args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
