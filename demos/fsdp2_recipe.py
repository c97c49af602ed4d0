"""FSDP2 from start to restart: build on meta, shard, allocate, load, train by tokens, save, load into a new model.

    torchrun --nproc-per-node 4 demos/fsdp2_recipe.py

Only rank 0's copy of the initial weights holds the whole model. The ranks have
unequal numbers of tokens, so the mean over ranks is not the mean over tokens:
compare `gradient error (mean of ranks)` with `gradient error (all tokens)`.
`dtypes` are those of the weight in forward, of the weight that the optimizer
updates, and of its gradient.

Try    --equal-tokens     the same number of tokens on every rank: both means agree
       on 2 ranks         half as many shards, each twice as large
       on 3 ranks         rows that do not divide evenly: the last shard is smaller
"""

import argparse
import os
import shutil
import tempfile
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.functional import mse_loss

WIDTH = 16
seen: dict[str, str] = {}  # the dtype of a weight inside forward


class Block(nn.Module):
    """A residual layer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen["forward"] = str(self.linear.weight.dtype).removeprefix("torch.")
        return x + torch.tanh(self.linear(x))


class Model(nn.Module):
    """Three blocks, a head, and a buffer that no checkpoint holds."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(WIDTH, 1)
        self.register_buffer("scale", torch.empty(WIDTH), persistent=False)

    def init_buffers(self) -> None:
        self.scale.copy_(torch.linspace(0.5, 1.5, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * self.scale
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def build(mesh: DeviceMesh) -> Model:
    """Return a sharded model whose weights have memory, but no values yet."""
    with torch.device("meta"):  # shapes only: the whole model would not fit
        model = Model()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    model.to_empty(device=mesh.device_type)  # memory for shards only; its content is what was there before
    model.init_buffers()  # loading will not restore them
    return model


def sum_over_tokens(model: Model) -> None:
    """Let FSDP add up gradients over the ranks, and leave the division to the loss."""
    for module in [*model.blocks, model]:
        module.set_gradient_divide_factor(1.0)
        module.set_force_sum_reduction_for_comms(True)  # Gloo has no reduction with a factor


def all_tokens(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the tokens of all ranks, (count, WIDTH), and their targets, (count, 1)."""
    torch.manual_seed(7)
    rows = torch.randn(count, WIDTH) * torch.linspace(0.2, 2, count)[:, None]  # not all tokens are alike
    return rows, rows.sum(dim=1, keepdim=True).sin()


def gradient(model: Model, x: torch.Tensor, y: torch.Tensor, divide_by: float) -> torch.Tensor:
    """Return the whole gradient of the first layer, for a loss that is a sum over this rank's tokens / `divide_by`."""
    model.zero_grad()
    (mse_loss(model(x).float(), y, reduction="sum") / divide_by).backward()
    grad = model.blocks[0].linear.weight.grad
    return grad.full_tensor() if hasattr(grad, "full_tensor") else grad


def off_by(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the relative difference."""
    return ((one - other).norm() / other.norm()).item()


def restart(model: Model, optimizer: torch.optim.Optimizer, mesh: DeviceMesh) -> tuple[Model, torch.optim.Optimizer]:
    """Save the training state, rebuild everything, and load the state."""
    folders = [tempfile.mkdtemp() if dist.get_rank() == 0 else ""]
    dist.broadcast_object_list(folders, src=0)
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"weights": weights, "moments": moments}, checkpoint_id=folders[0])

    model = build(mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)  # after sharding
    weights, moments = get_state_dict(model, optimizer)
    dcp.load({"weights": weights, "moments": moments}, checkpoint_id=folders[0])  # into these shards, in place
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(folders[0])
    sum_over_tokens(model)
    return model, optimizer


def main() -> None:
    """Follow the recipe, and compare each of its results with one process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--equal-tokens", action="store_true", help="give every rank 4 tokens")
    args = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    kind = "cpu"
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        kind = "cuda"
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if kind == "cuda" else "gloo", timeout=timedelta(seconds=20))
    mesh = init_device_mesh(kind, (world,))

    # The start: one process initializes, all ranks get their rows of it.
    torch.manual_seed(rank)  # a different seed on each rank, on purpose: the start comes from rank 0
    whole = Model().to(kind)
    whole.init_buffers()
    model = build(mesh)
    start = whole.state_dict() if rank == 0 else {}
    set_model_state_dict(model, start, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
    for weight in whole.state_dict().values():
        dist.broadcast(weight, src=0)  # only to compare with: now every rank has the whole model
    equal = all(torch.equal(model.state_dict()[name].full_tensor(), w) for name, w in whole.state_dict().items())

    # Unequal numbers of tokens, as in sequences of different lengths.
    counts = [4 if args.equal_tokens else 2 + 4 * each for each in range(world)]
    rows, targets = (each.to(kind) for each in all_tokens(sum(counts)))
    mine = slice(sum(counts[:rank]), sum(counts[: rank + 1]))
    x, y, tokens = rows[mine], targets[mine], sum(counts)

    right = gradient(whole, rows, targets, tokens)
    ranks_mean = gradient(model, x, y, counts[rank])  # each rank its own mean; FSDP averages over ranks
    sum_over_tokens(model)
    token_mean = gradient(model, x, y, tokens)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    optimizer.step()
    weight = model.blocks[0].linear.weight
    dtypes = seen["forward"], *(str(each.dtype).removeprefix("torch.") for each in (weight, weight.grad))

    new_model, new_optimizer = restart(model, optimizer, mesh)
    for one, its_optimizer in ((model, optimizer), (new_model, new_optimizer)):
        gradient(one, x, y, tokens)
        its_optimizer.step()
    both = zip(model.parameters(), new_model.parameters(), strict=True)
    same = all(torch.equal(old.to_local(), new.to_local()) for old, new in both)

    print(f"my tokens: {counts[rank]} of {tokens}")
    print(f"dtypes: {' '.join(dtypes)}")
    print(f"gradient error (mean of ranks): {off_by(ranks_mean, right):.2f}")
    print(f"gradient error (all tokens): {off_by(token_mean, right):.2f}")
    print(f"continues as before: {same}")
    assert equal, "every rank's rows are those of rank 0's model, whatever its own seed"
    assert dtypes == ("bfloat16", "float32", "float32"), "forward computes in bf16; weight and gradient stay in fp32"
    assert off_by(token_mean, right) < 0.05, "summed over ranks and divided by all tokens, it is one process's gradient"
    if world > 1 and not args.equal_tokens:
        assert off_by(ranks_mean, right) > 0.1, "a mean of the ranks' means weighs tokens unequally"
    assert same, "built anew and loaded, the model takes the same next step"
    if kind == "cpu":
        dist.monitored_barrier()  # right after other collectives, a rank on Gloo may abort as it ends (torch 2.13)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
