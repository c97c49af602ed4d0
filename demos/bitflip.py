"""Bitflip: one bit of one replica flips, and DDP keeps training. A checksum finds it.

    torchrun --nproc-per-node 3 demos/bitflip.py

After step 4 of 0 to 11, one bit of one weight on the last rank flips, as in a
faulty chip. DDP averages gradients and never compares weights, so it reports
nothing. After each step the ranks reduce a checksum of their weights with MIN
and with MAX: if these differ, so do the replicas.
Look at `replicas differ after steps`, `found after step` and `odd one out`.

Try    --every 4     compare only after every fourth step
       --bit 14      a lower-order bit: the losses look as if nothing were wrong
       --step -1     no bit flips
"""

import argparse

import torch
import torch.distributed as dist
import torch.distributed.nn  # imported after init_process_group, it would keep the group alive (torch 2.13)
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 12


def checksum(model: nn.Module) -> torch.Tensor:
    """Return 64 bits that depend on each bit of the weights and on its place."""
    words = torch.cat([p.detach().view(torch.int32).flatten().long() for p in model.parameters()])
    return (words * torch.arange(1, 2 * len(words), 2)).sum()  # odd factors: no flipped bit vanishes modulo 2^64


def agree(model: nn.Module) -> bool:
    """Return whether the weights of all ranks have the same checksum."""
    lowest, highest = checksum(model), checksum(model)
    dist.all_reduce(lowest, dist.ReduceOp.MIN)
    dist.all_reduce(highest, dist.ReduceOp.MAX)
    return bool(lowest == highest)


def odd_ones(model: nn.Module) -> list[int]:
    """Return the ranks whose checksum is not that of the majority; empty if there is no majority."""
    own = checksum(model)
    sums = [torch.zeros_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(sums, own)
    values = [int(value) for value in sums]
    common = max(set(values), key=values.count)
    if 2 * values.count(common) <= len(values):
        return []
    return [rank for rank, value in enumerate(values) if value != common]


def turn_over(weight: torch.Tensor, bit: int) -> None:
    """Flip one bit of the first number of this weight."""
    weight.data.view(torch.int32).flatten()[0] ^= 1 << bit


def main() -> None:
    """Train, flip a bit, and look for it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--step", type=int, default=4, help="the step after which the bit flips")
    parser.add_argument("--bit", type=int, default=21, choices=range(12, 31), metavar="12..30", help="which bit")
    parser.add_argument("--every", type=int, default=1, help="steps from one comparison to the next")
    args = parser.parse_args()
    dist.init_process_group("gloo")  # the model is on the CPU
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    noise = torch.Generator().manual_seed(1 + rank)

    differ, found, odd = [], None, []
    for step in range(STEPS):
        x = torch.randn(16, 4, generator=noise)
        loss = (ddp(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == args.step and rank == world - 1:
            turn_over(model[0].weight, args.bit)
        if not agree(model):  # for this demo, after each step
            differ.append(step)
            if found is None and step % args.every == args.every - 1:
                found, odd = step, odd_ones(model)
        print(f"loss: {loss.item():.4f}")

    print(f"replicas differ after steps: {' '.join(map(str, differ)) or 'none'}")
    print(f"found after step: {found}")
    print(f"odd one out: {' '.join(map(str, odd)) or 'nobody can tell'}")
    if 0 <= args.step < STEPS and world > 1:
        assert differ == list(range(args.step, STEPS)), "DDP goes on with replicas that differ, to the last step"
        due = [step for step in differ if step % args.every == args.every - 1]
        assert found == (due[0] if due else None), "the first check after the flip finds it"
        assert not due or odd == ([world - 1] if world > 2 else []), "three replicas name the wrong one, two cannot"
    else:
        assert not differ, "replicas that nobody touched have the same bits"
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
