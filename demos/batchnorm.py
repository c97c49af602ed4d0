"""BatchNorm under DDP: each rank normalizes with its own samples' statistics.

    torchrun --nproc-per-node 4 demos/batchnorm.py

BatchNorm makes the output for a sample depend on the rest of its batch, and
under DDP a rank sees only its own part. SyncBatchNorm first adds up sums,
squares and counts over all ranks. It runs only on GPUs, so this demo has its own
version; SyncBatchNorm.convert_sync_batchnorm(model) inserts the real one.
Look at how far off outputs and gradients are from those of one process, and at
the running mean that evaluation uses. It starts at 0 and moves a tenth of the
way toward each batch's mean, and DDP copies rank 0's running mean to all ranks.

Try    --skew 0         all ranks' samples are alike: local statistics are merely noisy
       --batch 512      less noise, but the ranks' samples still differ
       --layer-norm     LayerNorm normalizes one sample at a time: nothing to sync
"""

import argparse
import os
from copy import deepcopy
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.nn  # imported after init_process_group, it would keep the group alive (torch 2.13)
from torch.nn import BatchNorm1d, LayerNorm
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

WIDTH, BATCHES = 4, 5  # features; batches that pass before evaluation


class SumOverRanks(torch.autograd.Function):
    """An all-reduce with a backward: an input goes into every rank's output, so it gets all ranks' gradients."""

    @staticmethod
    def forward(_: object, tensor: torch.Tensor) -> torch.Tensor:
        """Add up over the ranks."""
        total = tensor.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(_: object, gradient: torch.Tensor) -> torch.Tensor:
        """Add up the gradients as well."""
        return SumOverRanks.forward(None, gradient.contiguous())


class SyncedBatchNorm(BatchNorm1d):
    """BatchNorm with the statistics of all ranks' samples."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalize, and record the statistics for evaluation."""
        if not self.training:
            return super().forward(x)
        # Sums and counts can be added up over the ranks; means and variances could not, if one rank had fewer samples.
        own = torch.cat([x.new_tensor([len(x)]), x.sum(0), x.square().sum(0)])
        count, *sums = SumOverRanks.apply(own).split([1, WIDTH, WIDTH])
        mean, squares = (each / count for each in sums)
        variance = squares - mean**2
        self.running_mean.lerp_(mean.detach(), self.momentum)
        self.running_var.lerp_((variance * count / (count - 1)).detach(), self.momentum)
        return (x - mean) / (variance + self.eps).sqrt() * self.weight + self.bias


def compare(way: str, norms: tuple[type, type], x: torch.Tensor, y: torch.Tensor) -> tuple[torch.nn.Module, ...]:
    """Pass the same batches through DDP and through one process that has all samples; return both models."""
    rank, world = dist.get_rank(), dist.get_world_size()
    model, alone = (model_with(norm, x.device) for norm in norms)
    output = deepcopy(model)[:2](x[0, rank])  # from a copy of the norm: each call changes its statistics
    whole_output = deepcopy(alone)[:2](x[0].flatten(0, 1)).unflatten(0, (world, -1))[rank]
    ddp = DistributedDataParallel(model)
    for batch in range(BATCHES):
        gradient = gradient_of(mse_loss(ddp(x[batch, rank]), y[batch, rank]), model)
        whole = gradient_of(mse_loss(alone(x[batch].flatten(0, 1)), y[batch].flatten(0, 1)), alone)
    output_off = ((output - whole_output).norm() / whole_output.norm()).item()
    gradient_off = ((gradient - whole).norm() / whole.norm()).item()
    if way == "local":
        hidden = model[0](x[0])
        print(f"batch mean (local samples): {hidden[rank, :, 0].mean():.3f}")
        print(f"batch mean (all samples): {hidden[..., 0].mean():.3f}")
    print(f"output error ({way}): {output_off:.1%}")
    print(f"gradient error ({way}): {gradient_off:.1%}")
    if way == "layer norm":
        assert output_off < 1e-5, "LayerNorm gives a sample the same output in any batch"
        assert gradient_off < 1e-4, "with LayerNorm, DDP's gradient equals that of one process"
    elif way == "synced":
        assert output_off < 1e-5, "with synced statistics, outputs equal those of one process"
        assert gradient_off < 1e-4, "with synced statistics, DDP's gradient equals that of one process"
    elif world > 1:
        assert output_off > 2e-4, "with local statistics, outputs differ from those of one process"
        assert gradient_off > 2e-4, "with local statistics, DDP's gradient differs from that of one process"
    return ddp, alone


def evaluate(way: str, ddp: DistributedDataParallel, alone: torch.nn.Sequential, x: torch.Tensor) -> None:
    """Evaluation uses the running statistics. DDP copies rank 0's to all ranks before each forward."""
    statistics = ddp.module[1]
    print(f"running mean ({'training' if way == 'local' else way}): {statistics.running_mean[0]:.3f}")
    ddp.eval()
    ddp(x[0, dist.get_rank()])
    if way == "local":
        first = model_with(BatchNorm1d, x.device)
        for batch in range(BATCHES):
            first(x[batch, 0])  # only rank 0's samples
        print(f"running mean (evaluation): {statistics.running_mean[0]:.3f}")
        assert torch.allclose(statistics.running_mean, first[1].running_mean), (
            "evaluation uses rank 0's running mean, which leaves out the other ranks' samples"
        )
    else:
        print(f"running mean (one process): {alone[1].running_mean[0]:.3f}")
        assert torch.allclose(statistics.running_mean, alone[1].running_mean, atol=1e-5), (
            "the synced running mean is that of all ranks' samples"
        )


def model_with(norm: type[torch.nn.Module], device: torch.device) -> torch.nn.Sequential:
    """Build a small model, the same each time except for its norm."""
    torch.manual_seed(0)
    first, last = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, 1)
    return torch.nn.Sequential(first, norm(WIDTH), torch.nn.Tanh(), last).to(device)


def gradient_of(loss: torch.Tensor, model: torch.nn.Module) -> torch.Tensor:
    """Run backward; return all gradients of the model as one vector."""
    model.zero_grad()
    loss.backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters()])


def main() -> None:
    """Pass the same batches through DDP with local and with synced statistics, and through one process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=8, help="samples per rank in a batch")
    parser.add_argument("--skew", type=float, default=1.0, help="how far apart the samples of neighboring ranks are")
    parser.add_argument("--layer-norm", action="store_true", help="use LayerNorm instead of BatchNorm")
    args = parser.parse_args()
    if args.batch < 2:
        raise SystemExit("--batch needs 2 or more: one sample has no variance.")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=10))
    world = dist.get_world_size()

    # Samples differ from rank to rank, as when each rank reads files of its own. x[b, r] is rank r's part of batch b.
    apart = args.skew * torch.arange(world)[:, None, None]
    x = torch.randn(BATCHES, world, args.batch, WIDTH, generator=torch.Generator().manual_seed(1)) + apart
    x = x.to(device)
    y = x.sin().sum(-1, keepdim=True)

    print(f"setting: {BATCHES} batches, each with {args.batch} samples per rank")
    ways = {"local": (BatchNorm1d, BatchNorm1d), "synced": (SyncedBatchNorm, BatchNorm1d)}
    for way, norms in ({"layer norm": (LayerNorm, LayerNorm)} if args.layer_norm else ways).items():
        ddp, alone = compare(way, norms, x, y)
        if not args.layer_norm:
            evaluate(way, ddp, alone, x)
        del ddp  # before the group is destroyed: DDP still refers to it
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
