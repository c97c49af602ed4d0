"""Gradient clipping: one norm over all ranks, taken after averaging.

    torchrun --nproc-per-node 4 demos/grad_clip.py

Clipping scales a gradient that is too long down to --max-norm and keeps its
direction. With DDP every rank holds the averaged gradient, so all find the
same norm without a message. When the gradient is cut into shards (FSDP, ZeRO,
tensor parallel), a rank sees only the norm of its shard; the squares must be
added up over the ranks first.
Compare the two scales, and by how many degrees the step turns away from that
of one process with the wrong norm, or with clipping before the average.

Try    --max-norm 1000    no gradient is that long: every way is right
       --norm inf         the largest entry: norms combine by their maximum
       --outlier 1        similar batches: clipping too early does little harm
"""

import argparse
import math
import os
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.nn  # imported after init_process_group, it would keep the group alive (torch 2.13)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.linalg import vector_norm
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_

ROWS, FEATURES, SAMPLES = 24, 4, 8  # the weight is ROWS x FEATURES; samples of a rank


def clip_too_early(own: torch.Tensor, args: argparse.Namespace) -> torch.Tensor:
    """Clip each rank's own gradient and average afterwards: the wrong order, for the ranks' scales differ."""
    early = own * scale(vector_norm(own, args.norm), args) / dist.get_world_size()
    dist.all_reduce(early)
    return early


def clip_shards(gradient: torch.Tensor, clipped: torch.Tensor, norm: torch.Tensor, args: argparse.Namespace) -> None:
    """Shards by hand: each rank has some rows of the averaged gradient, and the ranks join their norms."""
    shard = gradient.chunk(dist.get_world_size())[dist.get_rank()]
    mine = vector_norm(shard, args.norm)
    joined = mine.clone() if args.norm == math.inf else mine**2
    dist.all_reduce(joined, dist.ReduceOp.MAX if args.norm == math.inf else dist.ReduceOp.SUM)
    joined = joined if args.norm == math.inf else joined.sqrt()
    right, wrong = of_all_ranks(shard * scale(joined, args)), of_all_ranks(shard * scale(mine, args))
    print(f"norm of local shard: {mine:.2f}")
    print(f"norm of all shards: {joined:.2f}")
    print(f"scale (local shard): {scale(mine, args):.3f}")
    print(f"scale (all shards): {scale(joined, args):.3f}")
    print(f"degrees off (local shard): {degrees(wrong, clipped):.1f}")
    print(f"degrees off (all shards): {degrees(right, clipped):.1f}")
    assert torch.allclose(joined, norm), (
        "the norms of the shards, joined over the ranks, are the norm of the whole gradient"
    )
    assert torch.allclose(right, clipped, atol=1e-6), (
        "shards scaled by the norm of all shards are one process's clipped gradient"
    )
    if differ(scale(mine, args)):
        assert degrees(wrong, clipped) > 0.1, "scaled by their own norms, the shards turn the step in another direction"


def clip_dtensor(gradient: torch.Tensor, clipped: torch.Tensor, norm: torch.Tensor, args: argparse.Namespace) -> None:
    """Shards as torch keeps them: the weight and its gradient are DTensors, and so is the norm."""
    mesh = init_device_mesh(gradient.device.type, (dist.get_world_size(),))
    sharded = torch.nn.Parameter(distribute_tensor(torch.zeros_like(gradient), mesh, [Shard(0)]))
    sharded.grad = distribute_tensor(gradient, mesh, [Shard(0)])
    total = clip_grad_norm_([sharded], args.max_norm, args.norm)
    # What .item() or .to_local() would give here, the whole norm or only this shard's, depends on norm and version.
    assert torch.allclose(total.full_tensor(), norm), "full_tensor() of a DTensor's norm is the norm over all ranks"
    assert torch.allclose(sharded.grad.full_tensor(), clipped, atol=1e-6), (
        "clip_grad_norm_ scales all shards of a DTensor alike"
    )


def compare(args: argparse.Namespace, device: torch.device) -> None:
    """Clip one gradient as replicas hold it, too early, and as shards; compare with one process."""
    rank, world = dist.get_rank(), dist.get_world_size()
    # A layer whose lower rows have larger gradients, the batches of all ranks, and one process's clipped gradient.
    torch.manual_seed(0)
    weight = torch.randn(ROWS, FEATURES) * torch.logspace(-1, 0.5, ROWS)[:, None]
    x = torch.randn(world, SAMPLES, FEATURES)
    x[-1] *= args.outlier
    x, y = x.to(device), (x @ weight.T).to(device)
    model = torch.nn.Linear(FEATURES, ROWS, bias=False).to(device)
    torch.nn.init.zeros_(model.weight)
    (whole,) = torch.autograd.grad(mse_loss(model(x), y), model.weight)
    (own,) = torch.autograd.grad(mse_loss(model(x[rank]), y[rank]), model.weight)
    clipped = whole * scale(vector_norm(whole, args.norm), args)

    early = clip_too_early(own, args)
    # Replicas: backward has averaged already, so each rank may clip by itself.
    ddp = DistributedDataParallel(model)
    mse_loss(ddp(x[rank]), y[rank]).backward()
    gradient = model.weight.grad.clone()
    norm = clip_grad_norm_(model.parameters(), args.max_norm, args.norm)  # returns the norm from before clipping
    if rank == 0:
        print(f"Norms above {args.max_norm:g} are clipped. The last rank's inputs are {args.outlier:g} times as large.")
    print(f"norm before averaging: {vector_norm(own, args.norm):.2f}")
    print(f"norm after averaging: {norm:.2f}")
    assert torch.allclose(model.weight.grad, clipped, atol=1e-6), (
        "replicas that clip after backward all hold one process's clipped gradient"
    )
    clip_shards(gradient, clipped, norm, args)
    print(f"degrees off (clip first): {degrees(early, clipped):.1f}")
    if rank == 0:
        how = "the largest of the shards' norms" if args.norm == math.inf else "the root of the sum of their squares"
        print(f"Norm of all shards: {how}.")
        print("Degrees off one process's step. Clip first: clipped, then averaged.")
    clip_dtensor(gradient, clipped, norm, args)
    if differ(scale(vector_norm(own, args.norm), args)):
        assert degrees(early, clipped) > 0.1, "clipped before averaging, the step goes in another direction"


def scale(norm: torch.Tensor, args: argparse.Namespace) -> torch.Tensor:
    """Return the factor that clips a gradient of this norm, as in torch/nn/utils/clip_grad.py."""
    return (args.max_norm / (norm + 1e-6)).clamp(max=1.0)


def differ(scale: torch.Tensor) -> bool:
    """Return True if the scales of the ranks differ."""
    scales = of_all_ranks(scale[None])
    return (scales.max() - scales.min()).item() > 0.05


def of_all_ranks(tensor: torch.Tensor) -> torch.Tensor:
    """Gather the tensors of all ranks and concatenate them in the order of ranks."""
    tensors = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(tensors, tensor.contiguous())
    return torch.cat(tensors)


def degrees(x: torch.Tensor, y: torch.Tensor) -> float:
    """Return the angle between two gradients."""
    cosine = torch.nn.functional.cosine_similarity(x.flatten().double(), y.flatten().double(), dim=0)
    return math.degrees(math.acos(min(1.0, cosine.item())))


def main() -> None:
    """Check the arguments, form the group, and compare the ways to clip."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--max-norm", type=float, default=1.0, help="the longest gradient allowed")
    parser.add_argument("--norm", type=float, choices=[2.0, math.inf], default=2.0, help="2 (the default) or inf")
    parser.add_argument("--outlier", type=float, default=4.0, help="how many times too large the last inputs are")
    args = parser.parse_args()
    if ROWS % int(os.environ["WORLD_SIZE"]):
        raise SystemExit(f"The {ROWS} rows are cut into equal shards: take 1, 2, 3, 4, 6, 8, 12 or 24 ranks.")
    if args.max_norm <= 0 or args.outlier <= 0:
        raise SystemExit("--max-norm and --outlier must be above 0.")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=10))
    compare(args, device)
    if device.type == "cpu":
        dist.monitored_barrier()  # right after other collectives, a rank on Gloo may abort as it ends (torch 2.13)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
