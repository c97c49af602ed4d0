"""Tensor parallelism: each rank multiplies by its own slice of a matrix.

    torchrun --nproc-per-node 4 demos/tensor_parallel.py

An MLP is two matrices, A and B, with a GeLU between them. A is split by
columns: each rank gets the full values of some hidden units, so it can apply
GeLU alone. B is split by rows: each rank gets a partial sum of the whole
output, and one all-reduce completes it. All ranks have the same batch.
Compare `partial output`, different on every rank and wrong, with `output`,
the sum, the same on every rank and right (its first number is shown).

Try    --row-first    A by rows: GeLU of a partial sum is wrong
       --sp           sequence parallel: a rank keeps 1/N of the tokens
       --hidden 96    twice the work, and not one more byte is sent
"""

import argparse
import os
from collections import Counter
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.functional import gelu

TOKENS, WIDTH = 24, 24  # to be shared evenly by 1, 2, 3, 4, 6, 8, 12 or 24 ranks
calls, sent = Counter(), Counter()  # for each collective: how often, and the bytes that a ring would send for it


def communicate(x: torch.Tensor, what: str) -> torch.Tensor:
    """All-reduce, all-gather or reduce-scatter the tokens of `x`, or keep it as it is; and count."""
    world, x = dist.get_world_size(), x.contiguous()
    if what == "all-reduce":
        result = x.clone()
        dist.all_reduce(result)
    elif what == "all-gather":
        parts = [torch.empty_like(x) for _ in range(world)]
        dist.all_gather(parts, x)
        result = torch.cat(parts)
    elif what == "reduce-scatter":
        parts = list(x.chunk(world))
        result = torch.empty_like(parts[0])
        dist.reduce_scatter(result, parts)
    else:
        return x.view_as(x)
    calls[what] += 1
    # On a ring, all but this rank's part of the whole tensor travels, twice in an all-reduce.
    sent[what] += max(x.nbytes, result.nbytes) * (world - 1) // world * (2 if what == "all-reduce" else 1)
    return result


class Border(torch.autograd.Function):
    """The beginning or end of the split block: a collective in forward, its mirror image in backward."""

    @staticmethod
    def forward(ctx: object, x: torch.Tensor, forth: str, back: str) -> torch.Tensor:
        """Activations."""
        ctx.back = back
        return communicate(x, forth)

    @staticmethod
    def backward(ctx: object, slope: torch.Tensor) -> tuple:
        """Their gradient."""
        return communicate(slope, ctx.back), None, None


def split_mlp(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, sp: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return this rank's partial output and the output. What backward sends is the mirror (Megatron's f and g)."""
    enter, leave = ("nothing", "all-reduce"), ("all-reduce", "nothing")
    if sp:
        enter, leave = ("all-gather", "reduce-scatter"), ("reduce-scatter", "all-gather")
    partial = gelu(Border.apply(x, *enter) @ a) @ b
    return partial, Border.apply(partial, *leave)


def split_by_torch(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor, sp: bool) -> torch.Tensor:
    """Torch splits the layers of an unsplit model the same way (its Linear holds A transposed)."""
    hidden = a.shape[1]
    two = torch.nn.Linear(WIDTH, hidden, bias=False), torch.nn.Linear(hidden, WIDTH, bias=False)
    model = torch.nn.Sequential(two[0], torch.nn.GELU(), two[1]).to(x.device)
    model[0].weight.data, model[2].weight.data = a.detach().T.contiguous(), b.detach().T.contiguous()
    layout = Shard(0) if sp else Replicate()  # how the tokens lie outside the block
    plan = {"0": ColwiseParallel(input_layouts=layout), "2": RowwiseParallel(output_layouts=layout)}
    parallelize_module(model, init_device_mesh(x.device.type, (dist.get_world_size(),)), plan)
    return model(x.detach())


def split_rows_first(a: torch.Tensor, x: torch.Tensor) -> None:
    """Split A by rows: now the hidden units are partial sums, and GeLU is not linear."""
    rank, world, hidden = dist.get_rank(), dist.get_world_size(), a.shape[1]
    rows, columns = a.detach().chunk(world, 0)[rank], x.detach().chunk(world, 1)[rank]
    partial_hidden, right_hidden = columns @ rows, gelu(x @ a).detach()
    print(f"slice of a (rows first): {rows.shape[0]} x {hidden} of {WIDTH} x {hidden}")
    for order, split in (
        ("sum then gelu", gelu(communicate(partial_hidden, "all-reduce"))),
        ("gelu then sum", communicate(gelu(partial_hidden), "all-reduce")),
    ):
        off = (split - right_hidden).abs().max().item()
        print(f"wrong by ({order}): {off:.4f}")
        if order == "sum then gelu" or world == 1:
            assert off < 1e-4, "with rows first, the partial sums of hidden units must be added up before GeLU"
        else:
            assert off > 0.1, "the sum of the ranks' GeLUs is not the GeLU of the sum"


def main() -> None:
    """Split an MLP; compare output, gradients and traffic with the unsplit one, and with torch's own split."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hidden", type=int, default=48, help="hidden units")
    parser.add_argument("--row-first", action="store_true", help="show what goes wrong when A is split by rows")
    parser.add_argument("--sp", action="store_true", help="split the tokens between blocks (sequence parallel)")
    args = parser.parse_args()
    rank, world, hidden = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), args.hidden
    if hidden < 1 or hidden % world or TOKENS % world:
        raise SystemExit(f"{world} ranks cannot evenly share {hidden} hidden units and {TOKENS} tokens.")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=10))

    # 1. The unsplit MLP, to compare with: the same weights and the same batch on every rank.
    torch.manual_seed(0)
    whole_a, whole_b = torch.randn(WIDTH, hidden).to(device) / 4, torch.randn(hidden, WIDTH).to(device) / 4
    whole_x, slope = torch.randn(2, TOKENS, WIDTH).to(device)
    leaves = [each.requires_grad_() for each in (whole_x, whole_a, whole_b)]
    right = gelu(whole_x @ whole_a) @ whole_b
    right_grads = torch.autograd.grad(right, leaves, slope)

    # 2. This rank's slices: columns of A, rows of B; with --sp also of the tokens.
    a = whole_a.detach().chunk(world, dim=1)[rank].requires_grad_()
    b = whole_b.detach().chunk(world, dim=0)[rank].requires_grad_()

    def own_tokens(x: torch.Tensor) -> torch.Tensor:
        return x.detach().chunk(world)[rank] if args.sp else x.detach()

    x = own_tokens(whole_x).requires_grad_()
    print(f"slice of matrix a: {WIDTH} x {a.shape[1]} of {WIDTH} x {hidden}")
    print(f"slice of matrix b: {b.shape[0]} x {WIDTH} of {hidden} x {WIDTH}")
    print(f"tokens kept: {len(x)} of {TOKENS}")

    # 3. Forward and backward.
    partial, output = split_mlp(x, a, b, args.sp)
    print(f"partial output: {partial[0, 0].item():.2f}")
    print(f"output: {'on rank 0' if args.sp and rank > 0 else f'{output[0, 0].item():.2f}'}")
    print(f"one process: {right[0, 0].item():.2f}")
    forward = calls.copy()
    output.backward(own_tokens(slope))
    for label, seen in (("sent forward", forward), ("sent backward", calls - forward)):
        print(f"{label}: {', '.join(f'{n} {name}' for name, n in seen.items())}")
    print(f"bytes sent: {sent.total()}")
    if rank == 0:
        print("The first number of each output is shown; the partial ones add up to it.")
        print(f"Activations are {TOKENS} tokens of {WIDTH} numbers, {whole_x.nbytes} bytes.")
    assert torch.allclose(output, own_tokens(right), atol=1e-4), "columns, GeLU, rows and one sum give the whole output"
    own_grads = own_tokens(right_grads[0]), right_grads[1].chunk(world, 1)[rank], right_grads[2].chunk(world, 0)[rank]
    for mine, theirs in zip((x.grad, a.grad, b.grad), own_grads, strict=True):
        assert torch.allclose(mine, theirs, atol=1e-4), "gradients are those of the unsplit MLP, cut the same way"
    expected = {"all-gather": 1, "reduce-scatter": 1} if args.sp else {"all-reduce": 1}
    assert forward == calls - forward == expected, "one all-reduce each way, or all-gather and reduce-scatter with --sp"
    assert sent.total() == 4 * (world - 1) * whole_x.nbytes // world, (
        "with --sp and without, 4(N-1)/N of the activations are sent, for an MLP of any size"
    )

    # 4. Compare with torch's own split, and with A split by rows.
    assert torch.allclose(split_by_torch(whole_a, whole_b, x, args.sp), output, atol=1e-4), (
        "torch's ColwiseParallel and RowwiseParallel give the same output"
    )
    if args.row_first:
        split_rows_first(whole_a, whole_x)
    if device.type == "cpu":
        dist.monitored_barrier()  # right after other collectives, a rank on Gloo may abort as it ends (torch 2.13)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
