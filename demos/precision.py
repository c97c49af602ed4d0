"""Precision: what 16 bits lose when gradients are summed over ranks.

    torchrun --nproc-per-node 4 demos/precision.py

fp16 has 10 bits of fraction and a maximum of 65504; bf16 has only 7 bits, but
the range of fp32. So sums in bf16 are coarse, and sums in fp16 can overflow:
fp16 gradients are divided before they are summed, and small ones are scaled up
so that they do not become 0. A sum also depends on the order in which it is
added up, and a ring begins each chunk at a different rank.
Five experiments show this; each begins with the number that the rank contributes.
Look for the coarse sum, for inf, for 0, and for sums in different orders.

Try    --number 0.25         all three types hold it exactly: no sum is off
       --gradient 1000       far below fp16's maximum: dividing first or last is the same
       --loss-scale 1        no loss scaling: the small gradient stays 0
"""

import argparse
import math
import os
from datetime import timedelta

import torch
import torch.distributed as dist

TYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
NUMBER = 0.3  # what each rank contributes to the first sums
SMALL = 1e-8  # a gradient; the smallest number of fp16 is 6e-8
NUMBERS = 1e8, 1.0, -1e8, 1.0  # on ranks 0, 1, 2, 3, ..., for a sum that depends on its order


def total(number: float, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return the sum over ranks of a number, rounded and added up in this type."""
    x = torch.tensor(number, dtype=torch.float64, device=device).to(dtype)
    dist.all_reduce(x)
    return x


def compare_fractions(args: argparse.Namespace, device: torch.device) -> None:
    """Add up one number in three types."""
    world = dist.get_world_size()
    # Each rounding is off by half a unit of the last place at most; the number is rounded once and the sum N-1 times
    # (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2).
    exact, off = world * args.number, {}
    print(f"number contributed: {args.number:g}")
    print(f"number sum (exact): {exact:.10g}")
    for name, dtype in TYPES.items():
        made = total(args.number, dtype, device).item()
        off[name] = abs(made - exact) / exact
        print(f"number sum ({name}): {made:.10g}")
        assert off[name] <= 1.01 * world * torch.finfo(dtype).eps / 2, (
            "a sum over N ranks is off by at most N times half a unit in the type's last place"
        )
    if args.number == NUMBER:
        assert off["bf16"] > off["fp16"] > off["fp32"], (
            "the fewer bits of fraction, the coarser the sum, and bf16 has the fewest"
        )


def compare_ranges(args: argparse.Namespace, device: torch.device) -> None:
    """Average a large gradient, a small one, and one that overflows on the last rank."""
    rank, world = dist.get_rank(), dist.get_world_size()
    print(f"large contributed: {args.gradient:g}")
    late = total(args.gradient, torch.float16, device).item() / world
    early = total(args.gradient / world, torch.float16, device).item()
    wide = total(args.gradient, torch.bfloat16, device).item() / world
    print(f"mean fp16 (sum first): {late:g}")
    print(f"mean fp16 (divide first): {early:g}")
    print(f"mean bf16 (sum first): {wide:g}")
    if world * args.gradient > 65520:  # what is rounded to more than 65504, the largest number of fp16
        assert late == math.inf, "in fp16 a sum beyond 65504 is inf, and so is a mean computed from it"
    else:
        assert math.isclose(late, early, rel_tol=0.01), "up to 65504, dividing first or last gives the same mean"
    assert math.isclose(early, args.gradient, rel_tol=0.01), "dividing before summing keeps the mean within fp16"
    assert math.isclose(wide, args.gradient, rel_tol=0.05), "bf16 has the range of fp32: its sum does not overflow"

    # A small gradient. The loss, and so every gradient, is multiplied before backward and divided in fp32 after it.
    print(f"small contributed: {SMALL:g}")
    lost = total(SMALL, torch.float16, device).item()
    kept = total(SMALL * args.loss_scale, torch.float16, device).float().item() / args.loss_scale
    print(f"small sum (fp16): {lost:.2g}")
    print(f"small sum (loss scaled): {kept:.2g}")
    assert lost == 0, "in fp16, a gradient of 1e-8 rounds to 0, so its sum is 0 too"
    if args.loss_scale >= 2**13:  # 1e-8 is then one of fp16's normal numbers, which begin at 6e-5
        assert math.isclose(kept, world * SMALL, rel_tol=0.01), "with loss scaling, the small gradient survives in fp16"

    # The last rank's gradient overflows. Summed, it is inf on all ranks: all skip this step. A rank that has only a
    # shard of the gradient (FSDP) does not see the others' inf: then a flag has to be reduced.
    mine = torch.tensor(70000.0 if rank == world - 1 else 1.0).half().item()
    summed = total(mine, torch.float16, device).item()
    print(f"overflow contributed (fp16): {mine:g}")
    print(f"overflow sum (fp16): {summed:g}")
    assert not math.isfinite(summed), "one rank's inf ends up in every rank's sum, so all ranks can skip the same step"


def compare_orders(device: torch.device) -> None:
    """Add up the same numbers starting with each rank's own, as a ring all-reduce does with its chunks."""
    rank, world = dist.get_rank(), dist.get_world_size()
    number = NUMBERS[rank % len(NUMBERS)]
    print(f"ring contributed: {number:g}")
    sums = {}
    for name, dtype in ("fp32", torch.float32), ("fp64", torch.float64):
        made = torch.zeros((), dtype=dtype)
        for step in range(world):
            made += NUMBERS[(rank + step) % world % len(NUMBERS)]
        print(f"ring sum ({name}): {made.item():.0f}")
        sums[name] = [torch.empty((), dtype=dtype, device=device) for _ in range(world)]
        dist.all_gather(sums[name], made.to(device))
    theirs = total(number, torch.float32, device)
    print(f"ring all_reduce (fp32): {theirs.item():.0f}")
    same = [torch.empty_like(theirs) for _ in range(world)]
    dist.all_gather(same, theirs)
    if world > 2:
        assert len(set(map(float, sums["fp32"]))) > 1, "in fp32, adding in a different order changes the sum"
    assert len(set(map(float, sums["fp64"]))) == 1, (
        "fp64 has enough bits for these numbers: any order gives the same sum"
    )
    assert len(set(map(float, same))) == 1, "dist.all_reduce gives every rank the same bits"


def main() -> None:
    """Add up numbers over the ranks in each type, at the ends of its range, and in different orders."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--number", type=float, default=NUMBER, help="what each rank contributes to the first sums")
    parser.add_argument("--gradient", type=float, default=40000.0, help="a large gradient, 0 to 65504")
    parser.add_argument("--loss-scale", type=float, default=2.0**16, help="what the small gradient is multiplied by")
    args = parser.parse_args()
    if not 0.01 <= args.number <= 100 or not 0 <= args.gradient <= 65504 or not 1 <= args.loss_scale <= 2**24:
        raise SystemExit("--number may be 0.01 to 100, --gradient 0 to 65504, --loss-scale 1 to 16777216.")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=10))

    if dist.get_rank() == 0:
        print("Each of the five experiments begins with the number that the rank contributes.")
        print("For `ring sum`, each rank adds up the numbers of all ranks, starting with its own.")
    compare_fractions(args, device)
    compare_ranges(args, device)
    compare_orders(device)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
