"""Compile graphs: a backward that is compiled in one piece hides no all-reduce.

    torchrun --nproc-per-node 2 demos/compile_graphs.py

torch.compile turns the model into graphs, and each graph has one backward. Its
gradients are all ready when it ends. So torch.compile splits a model in DDP at
the bucket boundaries (DDPOptimizer): while one graph's backward runs, the
bucket of the graph before it travels.
Look at `order`: B is the backward of a graph, R the moment when a bucket is
handed to the network. Only an R with a B after it can be hidden.

Try    --caps 1 2 25   larger values of bucket_cap_mb: fewer graphs
       --layers 8      more layers of 1 MiB
       on 4 ranks      the same graphs, and the same order on each rank
"""

import argparse
import logging
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import _dynamo as dynamo
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTH = 512  # 512 x 512 weights of 4 bytes: 1 MiB a layer
events: list[str] = []  # B and R of this rank, in order


class Net(nn.Module):
    """A stack of layers; a model of nn.Sequential alone would not be split."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class CompiledGraph(torch.autograd.Function):
    """A graph whose backward returns the gradients of all its weights at its end, as a compiled one does."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, graph: torch.fx.GraphModule, *inputs: torch.Tensor) -> object:
        ctx.inputs = [each.detach().requires_grad_(each.requires_grad) for each in inputs]
        with torch.enable_grad():
            ctx.outputs = graph(*ctx.inputs)
        return tuple(each.detach() for each in ctx.outputs)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *slopes: torch.Tensor) -> object:
        wanted = [each for each in ctx.inputs if each.requires_grad]
        gradients = iter(torch.autograd.grad(ctx.outputs, wanted, slopes))
        events.append("B")
        return None, *(next(gradients) if each.requires_grad else None for each in ctx.inputs)


def compile_graph(graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> Callable[..., object]:
    """The backend that torch.compile calls for each graph; a real one would turn it into fast kernels."""
    return lambda *inputs: CompiledGraph.apply(graph, *inputs)


def send(_: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """What DDP calls for a full bucket, instead of its own all-reduce."""
    events.append("R")
    work = dist.all_reduce(bucket.buffer().div_(dist.get_world_size()), async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


def run_steps(layers: int, cap: float, split: bool) -> list[torch.Tensor]:
    """Train two steps; leave the events of the second in `events`, and return its gradients."""
    torch.compiler.reset()
    dynamo.config.optimize_ddp = split
    torch.manual_seed(0)
    ddp = DistributedDataParallel(Net(layers), bucket_cap_mb=cap)
    ddp.register_comm_hook(None, send)
    model = torch.compile(ddp, backend=compile_graph)
    x = torch.randn(dist.get_world_size(), 2, WIDTH)[dist.get_rank()]
    for _ in range(2):  # DDP rebuilds its buckets after the first step
        ddp.zero_grad()
        events.clear()
        model(x).square().mean().backward()
    return [weight.grad.clone() for weight in ddp.parameters()]


def main() -> None:
    """Compile with several sizes of bucket, and without the split, and compare what comes when."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=4, help="layers of the model, 2 to 9")
    parser.add_argument("--caps", type=float, nargs="+", default=[1], help="values of bucket_cap_mb, in MiB")
    args = parser.parse_args()
    if not 2 <= args.layers <= 9 or min(args.caps) < 1:
        raise SystemExit("--layers may be 2 to 9, and each of --caps 1 or more.")
    logging.getLogger("torch._dynamo").setLevel(logging.ERROR)  # it warns of a profiler record in DDP
    dist.init_process_group("gloo")

    torch.manual_seed(0)
    plain = Net(args.layers)
    x = torch.randn(dist.get_world_size(), 2, WIDTH)
    plain(x).square().mean().backward()  # what one process gets from the whole batch
    whole = [weight.grad for weight in plain.parameters()]

    for cap, split in [*((cap, True) for cap in args.caps), (args.caps[0], False)]:
        gradients = run_steps(args.layers, cap, split)
        name = f"cap {cap:g}" if split else "not split"
        backward = "".join(events)
        print(f"graphs ({name}): {backward.count('B')}")
        print(f"order ({name}): {backward}")
        print(f"buckets that can overlap ({name}): {backward.rstrip('R').count('R')}")
        for mine, right in zip(gradients, whole, strict=True):
            assert torch.allclose(mine, right, atol=1e-6), "split or not, the gradients are those of one process"
        if not split:
            assert backward == "B" + "R" * backward.count("R"), "with one graph every bucket waits for all of backward"
        elif cap == 1:
            assert backward.count("BR") == args.layers, "split into buckets of one layer, each leaves after its graph"
    dist.monitored_barrier()  # right after other collectives, a rank on Gloo may abort as it ends (torch 2.13)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
