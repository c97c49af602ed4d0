"""Traces: the same three layers under eight switches, and the collectives of one step under each.

    torchrun --nproc-per-node 4 demos/traces.py

Each library has its own names for a few algorithms. The collectives of a step
tell you which one you got. A trace is what a rank calls in forward | backward |
step: AG is all-gather, RS reduce-scatter, AR all-reduce; AG2 is an all-gather
in a group of 2, which is smaller than the job. After the step the weights are
those of one process under every switch.
Compare `trace (fsdp)` with the others, and `bytes sent` by a rank with the
1,728 bytes of the weights.

Try    --hide         traces a to h, with their names at the end: match them first
       on 2 ranks, then 3    with 2, no group of 2 is smaller than the job
"""

import argparse
import os
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

WIDTH, ROWS, LR = 12, 12, 0.1  # 1, 2, 3, 4 and 6 ranks can share 12 rows or columns
SHORT = {"gather": "AG", "reduce_scatter": "RS", "allreduce": "AR", "all_reduce": "AR"}  # by a part of the call's name


def turn_on(switch: str, model: nn.Module) -> nn.Module:
    """Turn on a switch. The comments are its other names."""
    world, kind = dist.get_world_size(), model.a.weight.device.type
    mesh = init_device_mesh(kind, (world,))
    match switch:
        case "ddp":  # torchtitan: only data_parallel_replicate_degree; Megatron: no_shard
            return DistributedDataParallel(model)
        case "fsdp":  # ZeRO-3, FULL_SHARD; Megatron: optim_grads_params
            return shard(model, mesh, True)
        case "fsdp kept":  # ZeRO-2, SHARD_GRAD_OP; torchtitan: fsdp_reshard_after_forward never
            return shard(model, mesh, False)
        case "fsdp to 2":  # ZeRO++ hpZ
            return shard(model, mesh, 2)
        case "hsdp":  # HYBRID_SHARD, MiCS; Accelerate: dp_replicate_size and dp_shard_size
            return shard(model, init_device_mesh(kind, (world // 2, 2), mesh_dim_names=("replicate", "shard")), True)
        case "tp":
            return parallelize_module(model, mesh, {"b": ColwiseParallel(), "c": RowwiseParallel()})
        case "tp with sp":  # Megatron: --sequence-parallel; outside of the pair a rank has its own rows only
            into, out = ColwiseParallel(input_layouts=Shard(0)), RowwiseParallel(output_layouts=Shard(0))
            return parallelize_module(model, mesh, {"b": into, "c": out})
    return model  # ZeRO-1 changes the optimizer's step, see below


def shard(model: nn.Module, mesh: DeviceMesh, reshard: bool | int) -> nn.Module:
    """Shard layer by layer, then the root."""
    for module in (model.a, model.b, model.c, model):
        fully_shard(module, mesh=mesh, reshard_after_forward=reshard)
    return model


def step_of_zero1(model: nn.Module) -> None:
    """Reduce each part of the gradient to the rank that updates it, then gather weights: the distributed optimizer."""
    world, rank = dist.get_world_size(), dist.get_rank()
    gradient, weights = (torch.cat([each.flatten() for each in all_of]) for all_of in gradients_and_weights(model))
    reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor  # the older names
    all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    mine = torch.empty_like(gradient.chunk(world)[rank])
    reduce_scatter(mine, gradient)
    part = weights.chunk(world)[rank] - LR * mine / world  # an optimizer with averages has them for this part only
    all_gather(weights, part)
    for each, new in zip(model.parameters(), weights.split(WIDTH * WIDTH), strict=True):
        each.data.copy_(new.view_as(each))


def gradients_and_weights(model: nn.Module) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return the gradients and the weights, layer by layer."""
    return [each.grad for each in model.parameters()], [each.data for each in model.parameters()]


class Model(nn.Module):
    """Three layers without biases, the same on all ranks."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.c = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in "abc")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.c(torch.tanh(self.b(torch.tanh(self.a(x)))))


class Trace(TorchDispatchMode):
    """Writes down each collective of this rank, and adds up the bytes that a ring sends for it."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[list[str]] = [[]]
        self.sent = 0.0

    def __torch_dispatch__(self, call: Callable, types: list, args: tuple = (), kwargs: dict | None = None) -> object:
        if any(issubclass(each, DTensor) for each in types):
            return NotImplemented  # what DTensor makes of this call comes here again, with its collectives
        result = call(*args, **(kwargs or {}))
        name = next((SHORT[part] for part in SHORT if part in str(call)), "")
        if name and "c10d" in call.namespace:
            groups = (each for each in args if isinstance(each, torch.ScriptObject))  # none from DTensor: all ranks
            group, world = next(groups, None), dist.get_world_size()
            size = world if group is None else dist.ProcessGroup.unbox(group).size()
            whole = max(each.nbytes for each in tree_leaves((args, result)) if isinstance(each, torch.Tensor))
            self.sent += (2 if name == "AR" else 1) * whole * (size - 1) / size
            self.parts[-1].append(name + (str(size) if size < world else ""))
        return result

    def count(self, short: str) -> int:
        return sum(call.startswith(short) for part in self.parts for call in part)

    def __str__(self) -> str:
        return " | ".join(" ".join(part) or "-" for part in self.parts)


def train(switch: str, rows: torch.Tensor) -> tuple[Trace, list[torch.Tensor]]:
    """Take one step with this switch; return its trace and the weights after it."""
    rank, world = dist.get_rank(), dist.get_world_size()
    model = turn_on(switch, Model().to(rows.device))
    mine = rows if switch == "tp" else rows.chunk(world)[rank]  # the ranks of TP work on the same samples
    with Trace() as trace:
        loss = model(mine).square().sum() / (WIDTH * ROWS)
        trace.parts.append([])
        (loss if "tp" in switch else loss * world).backward()  # data parallelism divides by the number of ranks
        if switch == "tp with sp":
            dist.all_reduce(model.a.weight.grad)  # layer a has seen this rank's rows only
        trace.parts.append([])
        if switch == "zero-1":
            step_of_zero1(model)
        else:
            torch.optim.SGD(model.parameters(), lr=LR, foreach=False).step()  # TP leaves plain tensors among DTensors
    return trace, [each.full_tensor() if isinstance(each, DTensor) else each for each in model.parameters()]


def check(traces: dict[str, Trace]) -> None:
    """Assert what tells the switches apart."""
    counts = {switch: tuple(trace.count(short) for short in ("AG", "RS", "AR")) for switch, trace in traces.items()}
    assert counts["ddp"] == (0, 0, 1), "DDP: one all-reduce for a bucket of gradients"
    assert counts["zero-1"] == (1, 1, 0), "ZeRO-1: a reduce-scatter of gradients and an all-gather of weights"
    assert counts["fsdp"] == (6, 3, 0), "FSDP gathers each layer in forward and again in backward"
    assert counts["fsdp kept"] == (3, 3, 0), "kept after forward, a layer is gathered once"
    assert counts["tp"] == (0, 0, 2), "TP: an all-reduce of activations in forward and one in backward"
    assert counts["tp with sp"] == (2, 2, 1), "SP turns each all-reduce of TP into an all-gather and a reduce-scatter"
    if "hsdp" in traces:
        assert traces["fsdp to 2"].parts[1].count("AG2") == 3, "kept in groups of 2, backward gathers in these groups"
        assert counts["hsdp"] == (6, 3, 3), "HSDP adds an all-reduce between the replicas for each layer"


def main() -> None:
    """Run one step under each switch, and compare it with one process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hide", action="store_true", help="call the switches a to h, and give their names at the end")
    hide = parser.parse_args().hide
    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=20))
    world = dist.get_world_size()
    if world not in (1, 2, 3, 4, 6):
        raise SystemExit("This demo needs 1, 2, 3, 4 or 6 ranks, which can share 12 rows.")
    switches = ["ddp", "zero-1", "fsdp", "fsdp kept", "fsdp to 2", "hsdp", "tp", "tp with sp"]
    if world < 4 or world % 2:
        switches = [each for each in switches if each not in ("fsdp to 2", "hsdp")]  # they need groups within the job

    torch.manual_seed(1)
    rows = torch.randn(ROWS, WIDTH).to(device)
    alone = Model().to(device)  # one process with all samples
    (alone(rows).square().sum() / (WIDTH * ROWS)).backward()
    right = [weight - LR * gradient for gradient, weight in zip(*gradients_and_weights(alone), strict=True)]

    if hide:
        switches = [switches[at] for at in torch.randperm(len(switches)).tolist()]  # the same order on all ranks
    labels = dict(zip(switches, "abcdefgh" if hide else switches, strict=False))
    traces = {}
    for switch, label in labels.items():
        traces[switch], weights = train(switch, rows)
        print(f"trace ({label}): {traces[switch]}")
        print(f"bytes sent ({label}): {traces[switch].sent:.0f}")
        same = all(torch.allclose(one, other, atol=1e-6) for one, other in zip(weights, right, strict=True))
        assert same, "under every switch the weights after the step are those of one process"
    if hide:
        for switch, label in labels.items():
            print(f"{label} is: {switch}")
    if world > 1:
        check(traces)
    dist.barrier()
    if device.type == "cpu":
        dist.monitored_barrier()  # right after other collectives, a rank on Gloo may abort as it ends (torch 2.13)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
