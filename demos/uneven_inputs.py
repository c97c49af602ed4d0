"""Uneven inputs: a rank that runs out of batches leaves the others waiting.

    torchrun --nproc-per-node 4 demos/uneven_inputs.py

Rank r has r more batches than rank 0, and the same loop runs first without Join,
then with it. Each step of DDP needs an all-reduce by all ranks, so without Join
the step after rank 0's last one never ends, while rank 0 itself sees no error:
look at `end (no join)`. In a Join context, a rank without batches shadows the
others: it contributes zeros to their all-reduces, and gets the final weights
from the last rank. Look at `steps shadowed`, and at the weights when the rank's
own batches are done and when all ranks' batches are done.

Try    --divide live     divides by the ranks still training: late batches count for more
       --throw           stop all ranks as soon as one runs out
       --surplus 3       rank r has 3r more batches than rank 0
"""

import argparse
import os
from collections.abc import Iterator
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.nn  # imported after init_process_group, it would keep the group alive (torch 2.13)
from torch.distributed.algorithms.join import Join, Joinable, JoinHook
from torch.nn.parallel import DistributedDataParallel

BASE, LR = 3, 0.1  # rank 0's batches; the learning rate


class Shadow(Joinable, JoinHook):
    """Counts the steps in which this rank only shadows: Join calls its `main_hook` in each, after that of DDP."""

    join_process_group = property(lambda self: self.group)
    join_device = property(lambda self: self.device)

    def __init__(self, ddp: DistributedDataParallel) -> None:
        super().__init__()
        self.group, self.device, self.steps = ddp.process_group, ddp.device, 0

    def join_hook(self, **_: object) -> JoinHook:
        """Return what a rank without batches does instead of a step."""
        return self

    def main_hook(self) -> None:
        """Count the step; DDP's own hook contributes zeros to the all-reduces."""
        self.steps += 1


def train(ddp: DistributedDataParallel, batches: list[tuple[torch.Tensor, torch.Tensor]]) -> Iterator[int]:
    """Take a step with each batch; yield the number of steps so far."""
    for step, (x, y) in enumerate(batches, 1):
        ddp.zero_grad()
        torch.nn.functional.mse_loss(ddp(x), y).backward()
        ddp.module.weight.data -= LR * ddp.module.weight.grad
        yield step


def train_without_join(batches: list, timeout: float) -> None:
    """Train with plain DDP, in a separate group over Gloo: after a timeout a group is useless."""
    rank = dist.get_rank()
    group = dist.new_group(timeout=timedelta(seconds=timeout), backend="gloo")
    plain = DistributedDataParallel(replica(torch.device("cpu")), process_group=group)
    steps, error = 0, ""
    if rank == 0:
        print(f"Without Join, an all-reduce that is missing a rank times out after {timeout:g} s.")
    try:
        for steps in train(plain, batches):
            print(f"batches left (no join): {len(batches) - steps}")
    except RuntimeError as wrong:
        error = str(wrong)
    print(f"steps (no join): {steps}")
    print(f"end (no join): {'timeout' if error else 'no error'}")
    assert steps == BASE, "without Join, no rank takes more steps than the rank with the fewest batches"
    assert bool(error) == (rank > 0), "the rank that ran out sees no error; the ranks with batches left do"


def train_with_join(ddp: DistributedDataParallel, batches: list, longest: int, args: argparse.Namespace) -> None:
    """Run the same loop in a Join context. `ddp.join()` is short for `Join([ddp])`."""
    shadow, mine = Shadow(ddp), [(x.to(ddp.device), y.to(ddp.device)) for x, y in batches]
    if dist.get_rank() == 0:
        print("With Join, a rank without batches shadows the rest: it contributes zeros.")
    divide_by_all = args.divide == "all"  # for DDP's hook: does a rank without batches still count?
    try:
        with Join([ddp, shadow], throw_on_early_termination=args.throw, divide_by_initial_world_size=divide_by_all):
            for steps in train(ddp, mine):
                print(f"batches left (join): {len(mine) - steps}")
            print(f"weights (rank done): {show(ddp.module.weight)}")
    except RuntimeError as stopped:
        if not args.throw:
            raise
        print(f"Stopped: {stopped}")
    print(f"steps trained: {steps}")
    print(f"steps shadowed: {shadow.steps}")
    print(f"weights (all done): {show(ddp.module.weight)}")
    if args.throw:
        assert steps == BASE, "with --throw, every rank stops after as many steps as the rank with the fewest batches"
    else:
        assert steps == len(mine), "in a Join context, every rank trains on all of its batches"
        assert steps + shadow.steps == longest, "a rank shadows until the rank with the most batches is done"


def replica(device: torch.device) -> torch.nn.Linear:
    """Make a model of two weights, both 0."""
    model = torch.nn.Linear(2, 1, bias=False).to(device)
    torch.nn.init.zeros_(model.weight)
    return model


def alone(batches: list[list[tuple[torch.Tensor, torch.Tensor]]], steps: int, live_only: bool) -> torch.Tensor:
    """Return the weights of one process that holds the batches of all ranks, after this many steps."""
    model = replica(torch.device("cpu"))
    for step in range(steps):
        live = [theirs[step] for theirs in batches if step < len(theirs)]
        losses = [torch.nn.functional.mse_loss(model(x), y) for x, y in live]
        (gradient,) = torch.autograd.grad(sum(losses) / (len(live) if live_only else len(batches)), model.weight)
        model.weight.data -= LR * gradient
    return model.weight.data


def show(weights: torch.Tensor) -> str:
    """Format the weights."""
    return " ".join(f"{number:.3f}" for number in weights.flatten().tolist())


def main() -> None:
    """Train without Join, train with it, compare with one process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--surplus", type=int, default=1, help="how many more batches a rank has than the one before")
    parser.add_argument(
        "--divide", choices=["all", "live"], default="all", help="divide gradients by all ranks or by the live ones"
    )
    parser.add_argument("--throw", action="store_true", help="let Join stop all ranks when one runs out")
    parser.add_argument("--timeout", type=float, default=1.5, help="seconds that a collective may take without Join")
    args = parser.parse_args()
    if args.surplus < 1:
        raise SystemExit("--surplus needs 1 or more: with the same number on every rank there is nothing to see.")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=30))
    rank, world = dist.get_rank(), dist.get_world_size()

    # Every rank knows all batches, so that it can compute the result of one process; it trains on its own.
    data, batches = torch.Generator().manual_seed(3), []
    for peer in range(world):
        xs = torch.randn(BASE + args.surplus * peer, 4, 2, generator=data)
        batches.append([(x, x @ torch.tensor([[2.0], [-1.0]]) + 0.5 * peer) for x in xs])
    longest = len(batches[-1])

    ddp = DistributedDataParallel(replica(device))
    train_without_join(batches[rank], args.timeout)
    train_with_join(ddp, batches[rank], longest, args)

    # Compare with one process that holds all batches.
    expected = alone(batches, BASE if args.throw else longest, live_only=args.divide == "live")
    print(f"one process: {show(expected)}")
    assert torch.allclose(ddp.module.weight.cpu(), expected, atol=1e-5), (
        "every rank ends with the weights of one process that holds all batches"
    )
    del ddp  # before the group is destroyed: DDP still refers to it
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
