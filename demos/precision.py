"""Precision: what is lost when gradients are added up over ranks in 16 bits, and how one keeps it.

    torchrun --nproc-per-node 4 demos/precision.py

fp16 has 10 bits of fraction and ends at 65504; bf16 has only 7, and ends where fp32 does. So sums in bf16 are coarse,
and sums in fp16 overflow: fp16 gradients are divided before they are summed, and small ones are scaled up lest they
vanish. Nor does the order of a sum leave it alone: a ring begins each chunk at another rank.
Look at the three sums of the same number, at inf, at 0, and at one sum begun at each of the ranks in turn.

Try    --number 0.25         a number that all three types hold exactly: no error anywhere
       --gradient 1000       not near the end of fp16: whether one divides before or after makes no difference
       --loss-scale 1        without loss scaling the small gradient is 0 in fp16, and stays 0
"""

import argparse
import math
import os
from datetime import timedelta

import torch
import torch.distributed as dist

TYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
SMALL = 1e-8  # a gradient; the smallest number of fp16 is 6e-8


def total(number: float, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """The sum over ranks of a number that each brings, kept and added up in this type."""
    x = torch.tensor(number, dtype=dtype, device=device)
    dist.all_reduce(x)
    return x


def main() -> None:
    """Add up over the ranks in each type, at the ends of its range, and in another order."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--number", type=float, default=1 / 3, help="what each rank brings to the first sums")
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
    rank, world = dist.get_rank(), dist.get_world_size()

    # 1. One number, three types. Each rounding is off by half a unit of the last place at most; the number is rounded
    # once and the sum N-1 times (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2).
    exact, off = world * args.number, {}
    print(f"sum (exact): {exact:.6f}")
    for name, dtype in TYPES.items():
        made = total(args.number, dtype, device).item()
        off[name] = abs(made - exact) / exact
        print(f"sum ({name}): {made:.6f}")
        assert off[name] <= 1.01 * world * torch.finfo(dtype).eps / 2, (
            "a sum over N ranks is off by no more than N half units of the type's last place"
        )
    if args.number == 1 / 3:
        assert off["bf16"] > off["fp16"] > off["fp32"], "bf16 is the coarsest of the three: it has the fewest bits of fraction"
