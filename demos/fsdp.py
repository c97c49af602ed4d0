"""Fully sharded data parallel: each rank keeps 1/N and gathers one layer at a time.

    torchrun --nproc-per-node 4 demos/fsdp.py

Each rank trains on its own samples, as in DDP, but stores only 1/N of the
weights, gradients and Adam's two moments (ZeRO-3). A layer is all-gathered
before it computes and freed afterwards; its gradients are reduce-scattered.
Follow the layers from `forward a` to `backward a`: a letter is a layer that
is whole on this rank, and a dot is one of which the rank holds only its part.
Then compare `bytes per parameter` (weights + gradients + moments) with DDP's
4 + 4 + 8, and count the all-gathers, which are the price of that saving.

Try    --stage 0      DDP: every rank holds all 16 bytes per parameter
       --stage 2      layers stay whole until backward: half as many all-gathers
       --one-group    fewer collectives, but all layers are whole at once
"""

import argparse
import os
from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from datetime import timedelta
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

LAYERS, WIDTH, STEPS, LR = 4, 48, 5, 0.01  # the width can be shared evenly by 1, 2, 3, 4, 6 and 8 ranks
NAMES = {"_allgather_base_": "all-gather", "_reduce_scatter_base_": "reduce-scatter"}
NAMES |= {"allreduce_": "all-reduce", "broadcast_": "broadcast"}
SHORT = {"all-gather": "AG", "reduce-scatter": "RS", "all-reduce": "AR", "broadcast": "BC"}
SPLIT = ("nothing (DDP)", "Adam's moments", "gradients and moments", "weights, gradients and moments")  # by stage
calls, moved = Counter(), Counter()  # for each collective: how often in a step, and how many numbers it moves


def shard(layers: nn.Sequential, args: argparse.Namespace) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Shard the layers. fully_shard goes from the inside out; the optimizer comes last: it must see the shards."""
    stage = args.stage
    if stage >= 2:
        mesh = init_device_mesh(layers[0][0].weight.device.type, (dist.get_world_size(),))
        for module in [layers] if args.one_group else [*layers, layers]:
            fully_shard(module, mesh=mesh, reshard_after_forward=stage == 3)
    model = layers if stage >= 2 else DistributedDataParallel(layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    if stage == 1:
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=LR)
    return model, optimizer


def watch(layers: nn.Sequential) -> list[int]:
    """While a layer computes, in forward and in backward, count the layers that are whole: a shard is a DTensor."""
    counts = []

    def show(moment: str) -> None:
        now = ["." if isinstance(each[0].weight, DTensor) else name for name, each in zip("abcd", layers, strict=True)]
        counts.append(LAYERS - now.count("."))
        print(f"{moment}: {' '.join(now)}", flush=True)

    def hook(name: str, _: object, __: object, output: torch.Tensor) -> None:
        show(f"forward {name}")
        output.register_hook(lambda _: show(f"backward {name}"))

    for name, layer in zip("abcd", layers, strict=True):
        layer[0].register_forward_hook(partial(hook, name))
    return counts


def train(model: nn.Module, optimizer: torch.optim.Optimizer, whole: nn.Module, data: torch.Tensor) -> list[int]:
    """Train, alongside one process on the whole batch; return the bytes that this rank held in the last step."""
    rank, world, (whole_x, whole_y) = dist.get_rank(), dist.get_world_size(), data
    x, y = whole_x[rank::world], whole_y[rank::world]
    alone = torch.optim.Adam(whole.parameters(), lr=LR)
    for _ in range(STEPS):
        optimizer.zero_grad()
        calls.clear(), moved.clear()
        with Collectives():
            loss = mse_loss(model(x), y)
            weights_held = held(model.parameters())
            loss.backward()
            gradients_held = held(weights.grad for weights in model.parameters())
            optimizer.step()
        alone.zero_grad()
        mse_loss(whole(whole_x), whole_y).backward()
        alone.step()
    states = getattr(optimizer, "optim", optimizer).state.values()  # ZeroRedundancyOptimizer has one for its own part
    moments_held = held(value for state in states for value in state.values() if value.numel() > 1)  # not the step
    return [weights_held, gradients_held, moments_held]


class Collectives(TorchDispatchMode):
    """Counts all collectives, those of FSDP and of DDP's C++ included, and the numbers that they move."""

    def __torch_dispatch__(self, op: object, types: object, args: tuple = (), kwargs: dict | None = None) -> object:
        """Count the operation if it is a collective, and run it."""
        name = NAMES.get(op.overloadpacket.__name__) if op.namespace == "c10d" else None
        if name:
            calls[name] += 1
            tensors = args[0] if isinstance(args[0], list) else args[:2]  # or an output and an input
            moved[name] += max(tensor.numel() for tensor in tensors) * (2 if name == "all-reduce" else 1)
        return op(*args, **(kwargs or {}))


def held(tensors: Iterable[torch.Tensor]) -> int:
    """Return the bytes of `tensors` that this rank has in memory."""
    return sum((each.to_local() if isinstance(each, DTensor) else each).nbytes for each in tensors)


def compare(shares: list[int], counts: list[int], size: int, args: argparse.Namespace, device: torch.device) -> None:
    """Compare memory and traffic with the formulas."""
    world, stage = dist.get_world_size(), args.stage
    # Memory: 4 + 4 + 8 bytes per parameter, each divided by N or not (Rajbhandari et al. 2020).
    share = [4 * size // (world if stage >= least else 1) for least in (3, 2)]
    if WIDTH % world == 0:
        assert shares[:2] == share, "stage 2 splits the gradients over the N ranks, and stage 3 the weights too"
    in_all = torch.tensor(shares[2], device=device)
    dist.all_reduce(in_all)
    assert in_all == 8 * size * (1 if stage else world), (
        "from stage 1 on, all ranks together hold Adam's moments once; in DDP, every rank holds them all"
    )

    # Traffic. torch's stage 1 all-reduces and broadcasts; the paper's would reduce-scatter, and move 2 models too.
    groups = 1 if args.one_group else LAYERS
    assert max(counts) == (LAYERS // groups if stage == 3 else LAYERS), (
        "in stage 3, one group of layers is whole at a time; in the other stages, all layers are"
    )
    if world == 1:  # a single rank has nothing to gather
        return
    models = 2 if stage in (0, 2) else 3
    assert moved.total() == models * size, "per step, stages 0 and 2 move the model twice, 1 and 3 three times"
    if stage >= 2:
        both = {"all-gather": groups * (stage - 1), "reduce-scatter": groups}
        assert calls == both, (
            "each group is gathered for forward, again for backward if it was freed, and reduce-scattered once"
        )


def main() -> None:
    """Train with one stage of ZeRO; compare bytes with the formula, weights with one process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--stage", type=int, choices=range(4), default=3, help="ZeRO: 1 splits moments, 2 gradients too, 3 weights too"
    )
    parser.add_argument("--one-group", action="store_true", help="shard the model as one group, not layer by layer")
    args = parser.parse_args()
    if not hasattr(torch.cpu.Stream, "record_event"):
        raise SystemExit(f"fully_shard on the CPU needs a torch newer than 2.6: this is {torch.__version__}.")
    if args.one_group and args.stage < 2:
        raise SystemExit("--one-group is about how fully_shard cuts the model: it needs --stage 2 or 3.")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=10))

    # The same model on all ranks, and the whole batch, of which each rank uses its own part.
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False), nn.Tanh()) for _ in range(LAYERS)]
    whole = nn.Sequential(*blocks).to(device)
    size = sum(weights.numel() for weights in whole.parameters())
    data = torch.randn(2, 4 * dist.get_world_size(), WIDTH).to(device)

    layers = deepcopy(whole)
    model, optimizer = shard(layers, args)
    counts = watch(layers)
    shares = train(model, optimizer, whole, data)
    print(f"max unsharded layers: {max(counts)}")
    print(f"bytes per parameter: {' + '.join(f'{each / size:.3g}' for each in shares)}")
    print(f"collectives a step: {' + '.join(f'{n} {SHORT[name]}' for name, n in calls.items())}")
    print(f"traffic (models a step): {moved.total() / size:g}")
    if dist.get_rank() == 0:
        print(f"Stage {args.stage} of ZeRO splits {SPLIT[args.stage]}. DDP stores 4 + 4 + 8 bytes per parameter.")
        print("AG: all-gather, RS: reduce-scatter, AR: all-reduce, BC: broadcast.")
        print("A traffic of 1 means that all weights pass through one collective; an all-reduce counts as 2.")

    compare(shares, counts, size, args, device)
    for mine, right in zip(model.parameters(), whole.parameters(), strict=True):
        full = mine.full_tensor() if isinstance(mine, DTensor) else mine
        assert torch.allclose(full, right, atol=1e-5), "the final weights equal those of one process"
    if device.type == "cpu":
        dist.monitored_barrier()  # right after other collectives, a rank on Gloo may abort as it ends (torch 2.13)
    del model  # before the group is destroyed: DDP still refers to it
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
