"""MFU: count the FLOP of a training step, time it, and compare with the best matrix product of this machine.

    torchrun --nproc-per-node 4 demos/mfu.py

Each rank trains the same layers on its own tokens, once as usual and once with
recomputation. `flop` is the FLOP per parameter and token. `mfu` counts what
the model needs, 6, and `hfu` what was computed: recomputation lowers the first
more than the second. The peak is measured, so these are shares of what a matrix
product reaches here, not of a data sheet's peak; ranks that share the cores of
this machine share the peak too.

Try    --layers 8     more layers: a smaller part of forward is not repeated
       --tokens 128   smaller products, and the gradients take as long as before
       --price 10     dollars for an hour of a GPU
"""

import argparse
import os
import time
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.nn  # imported after init_process_group, it would keep the group alive (torch 2.13)
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

ROUNDS = 5


def flop_of(work: Callable[[], object]) -> int:
    """Return the FLOP of the matrix products in `work`, counted as it runs."""
    with FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


def seconds_of(work: Callable[[], object]) -> float:
    """Return the seconds of `work` in the fastest of some rounds; other programs on this machine only slow it down."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


def step(model: torch.nn.Sequential, tokens: torch.Tensor, recompute: bool = False) -> None:
    """Do a forward and a backward, and average the gradients over the ranks."""
    model.zero_grad()
    output = checkpoint(model, tokens, use_reentrant=False) if recompute else model(tokens)
    output.square().mean().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def peak_of(width: int, tokens: int, device: torch.device) -> float:
    """Return the FLOP/s of the layers' largest matrix product alone."""
    a, b = torch.randn(tokens, width, device=device), torch.randn(width, width, device=device)
    return 2 * tokens * width * width / seconds_of(lambda: a @ b)


def main() -> None:
    """Count, time and compare a step with and without recomputation."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=4, help="linear layers, with a tanh between them")
    parser.add_argument("--width", type=int, default=128, help="width of the layers")
    parser.add_argument("--tokens", type=int, default=1024, help="tokens of each rank in a step")
    parser.add_argument("--price", type=float, default=2.0, help="dollars for an hour of a GPU")
    args = parser.parse_args()
    if min(args.layers, args.width, args.tokens) < 1:
        raise SystemExit("--layers, --width and --tokens must be 1 or more.")
    gpu = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    dist.init_process_group("nccl" if gpu else "gloo", timeout=timedelta(seconds=20))
    torch.set_num_threads(1)  # a core for each rank, if the machine has that many

    torch.manual_seed(0)  # the same weights on all ranks
    parts: list[torch.nn.Module] = [torch.nn.Linear(args.width, args.width, bias=False)]
    for _ in range(args.layers - 1):
        parts += [torch.nn.Tanh(), torch.nn.Linear(args.width, args.width, bias=False)]
    model = torch.nn.Sequential(*parts).to(device)
    torch.manual_seed(1 + dist.get_rank())
    tokens = torch.randn(args.tokens, args.width, device=device, requires_grad=True)
    each = args.tokens * sum(parameter.numel() for parameter in model.parameters())  # parameters x tokens

    forward = flop_of(lambda: model(tokens)) / each
    usual = flop_of(lambda: step(model, tokens)) / each
    plain = [parameter.grad.clone() for parameter in model.parameters()]
    repeated = flop_of(lambda: step(model, tokens, recompute=True)) / each
    again = [parameter.grad for parameter in model.parameters()]

    peak = peak_of(args.width, args.tokens, device)
    print(f"flop of forward: {forward:g}")
    print(f"peak: {peak / 1e9:.0f} GFLOP/s")
    for name, flop, recompute in ("as usual", usual, False), ("recomputed", repeated, True):
        seconds = seconds_of(lambda recompute=recompute: step(model, tokens, recompute))
        rate = args.tokens / seconds
        print(f"flop ({name}): {flop:g}")
        print(f"step ({name}): {1000 * seconds:.1f} ms")
        print(f"mfu ({name}): {6 * each / seconds / peak:.0%}")
        print(f"hfu ({name}): {flop * each / seconds / peak:.0%}")
        print(f"dollars a billion tokens ({name}): {1e9 / rate / 3600 * args.price:.2f}")

    assert forward == 2, "forward takes 2 FLOP for each parameter and token"
    assert usual == 6, "forward and backward take 6 FLOP for each parameter and token"
    assert repeated == 8 - 2 / args.layers, "recomputation repeats the forward of all layers but the last"
    assert all(map(torch.equal, plain, again)), "recomputation changes no gradient"
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
