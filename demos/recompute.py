"""Activation checkpointing: keep each block's input, and run the block again.

    torchrun --nproc-per-node 4 demos/recompute.py

Forward leaves tensors in memory because backward needs them: the activations.
A checkpointed block keeps only its input, and runs once more in backward to
get its activations back. Each rank does this alone: nothing more is sent, and
the parameters do not shrink. DDP averages the gradients as usual.
Compare the rows `bytes kept`, then the cost: one more forward pass, four
thirds of the arithmetic, and exactly the same gradients. `peak bytes` is the
maximum at any moment of a step.

Try    --segment 4     less is kept, but four blocks come back at once
       --batch 128     activations grow with the batch, parameters do not
       --blocks 16     twice the depth
"""

import argparse
import os
import weakref
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.nn  # imported after init_process_group, it would keep the group alive (torch 2.13)
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

WIDTH, HIDDEN = 64, 256  # a block widens its input four times, like the MLP of a transformer


class Stack(nn.Module):
    """Blocks in a row; `segment` of them are checkpointed as one, or none if it is 0."""

    def __init__(self, blocks: int, segment: int) -> None:
        super().__init__()
        self.segment, self.ran = segment, 0
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, WIDTH), nn.ReLU())
            for _ in range(blocks)
        )

    def run(self, x: torch.Tensor, first: int, last: int) -> torch.Tensor:
        """Run some blocks, and count them."""
        for block in self.blocks[first:last]:
            self.ran += 1
            x = block(x)
        return x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run all blocks, segment by segment."""
        if not self.segment:
            return self.run(x, 0, len(self.blocks))
        for first in range(0, len(self.blocks), self.segment):
            # use_reentrant=False is the variant that works with DDP (its documentation says so).
            x = checkpoint(self.run, x, first, first + self.segment, use_reentrant=False)
        return x


class Alive(TorchDispatchMode):
    """Counts the bytes of the tensors that exist, apart from those in `known`."""

    def __init__(self, known: list[torch.Tensor]) -> None:
        super().__init__()
        self.bytes = self.most = 0
        self.seen = weakref.WeakSet(tensor.untyped_storage() for tensor in known)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """Run an operation and count the bytes of its results."""
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else (out,):
            if isinstance(tensor, torch.Tensor) and tensor.untyped_storage() not in self.seen:
                storage = tensor.untyped_storage()
                self.seen.add(storage)
                self.bytes += storage.nbytes()
                self.most = max(self.most, self.bytes)
                weakref.finalize(storage, self.freed, storage.nbytes())
        return out

    def freed(self, size: int) -> None:
        """Subtract the bytes of a tensor that was freed."""
        self.bytes -= size


def measure(model: Stack, x: torch.Tensor) -> tuple[int, int, int, int, list[torch.Tensor]]:
    """One forward and backward: bytes kept between them, most bytes at once, arithmetic, blocks run, gradients."""
    with FlopCounterMode(display=False) as flops:  # in a pass of its own, for it keeps tensors alive
        model(x).sum().backward()
    leaves = [x, *model.parameters()]
    for leaf in leaves:
        leaf.grad = torch.zeros_like(leaf)  # there before, so that gradients do not count as activations
    model.ran = 0
    with Alive([*leaves, *(leaf.grad for leaf in leaves)]) as alive:
        out = model(x)
        kept = alive.bytes
        out.backward(torch.ones_like(out))
    return kept, alive.most, flops.get_total_flops(), model.ran, [p.grad.clone() for p in model.parameters()]


def average(model: Stack, x: torch.Tensor, gradients: list[torch.Tensor]) -> None:
    """Under DDP the hooks fire as before, and the average is that of the plain model's gradients."""
    ddp = DistributedDataParallel(model)
    model.zero_grad()
    out = ddp(x)
    out.backward(torch.ones_like(out))
    worst = 0.0
    for mine, p in zip(gradients, model.parameters(), strict=True):
        dist.all_reduce(mine)
        worst = max(worst, (p.grad - mine / dist.get_world_size()).abs().max().item())
    print(f"max abs diff from plain mean: {worst:.0e}")  # an average depends on the order of its sum
    assert worst < 1e-4, "DDP averages recomputed gradients like any others, up to rounding"


def main() -> None:
    """Run the same stack with and without recomputation, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=8, help="blocks of the model")
    parser.add_argument("--segment", type=int, default=1, help="blocks that are checkpointed as one")
    parser.add_argument("--batch", type=int, default=32, help="samples of each rank")
    args = parser.parse_args()
    if args.segment < 1 or args.blocks % args.segment:
        raise SystemExit(f"--segment {args.segment}: choose a number that divides the {args.blocks} blocks.")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=30))
    rank = dist.get_rank()

    # 1. The same weights twice; each rank has samples of its own.
    torch.manual_seed(0)
    plain, saving = Stack(args.blocks, 0).to(device), Stack(args.blocks, args.segment).to(device)
    saving.load_state_dict(plain.state_dict())
    torch.manual_seed(1 + rank)
    x = torch.randn(args.batch, WIDTH, device=device, requires_grad=True)

    # 2. What forward leaves behind for backward.
    kept, most, flops, ran, gradients = measure(plain, x)
    kept_now, most_now, flops_now, ran_now, gradients_now = measure(saving, x)
    print(f"bytes kept (plain): {kept}")
    print(f"bytes kept (recompute): {kept_now}")
    print(f"peak bytes (plain): {most}")
    print(f"peak bytes (recompute): {most_now}")
    if rank == 0:
        print(f"{args.blocks} blocks, checkpointed in segments of {args.segment}; {args.batch} samples a rank.")
        print("Kept: between forward and backward. Peak: the most at any moment.")
    row = 4 * args.batch  # bytes of one float32 number of every sample
    # Each block leaves the result of its two ReLUs; Linear needs its input, which is one of them already.
    assert kept == args.blocks * (HIDDEN + WIDTH) * row, (
        "without checkpoints every block keeps the results of its layers"
    )
    segments = args.blocks // args.segment
    assert kept_now == segments * WIDTH * row, "with checkpoints only the inputs and outputs of segments are kept"

    # 3. What it costs: each block runs once more, in backward.
    print(f"block runs (plain): {ran}")
    print(f"block runs (recompute): {ran_now}")
    print(f"flops recompute / plain: {flops_now / flops:.3f}")
    if rank == 0:
        print("A block run is a forward; its backward costs two: 1 + 2 become 2 + 2.")
    assert ran_now == 2 * ran, "every checkpointed block runs forward twice"
    # Each matrix is multiplied once in forward and twice in backward.
    assert 3 * flops_now == 4 * flops, "one more forward pass brings the arithmetic to four thirds"
    assert all(map(torch.equal, gradients, gradients_now)), "on each rank the gradients are the same, bit for bit"

    average(saving, x, gradients)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
