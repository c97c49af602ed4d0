"""A small transformer and its training on four ranks with PyTorch's own parallelisms, to compare with the planner.

As a script it does one step with each; every operation is known by the line of `step` that calls it.
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

LAYERS, HIDDEN, HEADS, KV, SIZE, FFN, VOCABULARY, SEQUENCE, BATCH = 2, 64, 4, 2, 16, 128, 128, 32, 8
CAP_MB = 0.03  # of DDP's buckets, so that there are several


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(HIDDEN, HEADS * SIZE, bias=False)
        self.k = nn.Linear(HIDDEN, KV * SIZE, bias=False)
        self.v = nn.Linear(HIDDEN, KV * SIZE, bias=False)
        self.o = nn.Linear(HEADS * SIZE, HIDDEN, bias=False)

    def forward(self, x):
        q, k, v = (each(x).unflatten(-1, (-1, SIZE)).transpose(1, 2) for each in (self.q, self.k, self.v))
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o(out.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(HIDDEN, FFN, bias=False)
        self.up = nn.Linear(HIDDEN, FFN, bias=False)
        self.down = nn.Linear(FFN, HIDDEN, bias=False)

    def forward(self, x):
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attention = nn.RMSNorm(HIDDEN), Attention()
        self.norm2, self.mlp = nn.RMSNorm(HIDDEN), MLP()

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.RMSNorm(HIDDEN), nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def state_bytes(model, optimizer):
    """Return the bytes of weights, gradients and Adam's two moments on this rank."""

    def size(tensors):
        local = (each.to_local() if hasattr(each, "to_local") else each for each in tensors)
        return sum(each.numel() * each.element_size() for each in local)

    weights = list(model.parameters())
    moments = [each for state in optimizer.state.values() for name, each in state.items() if name != "step"]
    return [size(weights), size([each.grad for each in weights]), size(moments)]


def ddp(tokens):
    model = Model()
    wrapped = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=CAP_MB)
    optimizer = torch.optim.AdamW(model.parameters())
    functional.cross_entropy(wrapped(tokens).flatten(0, 1), tokens.flatten()).backward()  # all in one bucket
    functional.cross_entropy(wrapped(tokens).flatten(0, 1), tokens.flatten()).backward()  # line: ddp
    optimizer.step()
    print(f"states of ddp: {state_bytes(model, optimizer)}")


def fsdp(tokens):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model, mesh = Model(), init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters())
    functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()  # line: fsdp
    optimizer.step()
    print(f"states of fsdp: {state_bytes(model, optimizer)}")


def tensor_parallel(x):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        RowwiseParallel,
        parallelize_module,
    )

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))["tp"]
    block = Block()
    columns = dict.fromkeys(["attention.q", "attention.k", "attention.v", "mlp.gate", "mlp.up"], ColwiseParallel())
    rows = dict.fromkeys(["attention.o", "mlp.down"], RowwiseParallel())
    whole = {"input_layouts": (Replicate(),), "desired_input_layouts": (Replicate(),)}
    inputs = {name: PrepareModuleInput(**whole) for name in ("attention", "mlp")}  # one all-reduce for q, k and v
    parallelize_module(block, mesh, {**columns, **rows, **inputs})
    x = x.clone().requires_grad_()
    block(x).sum().backward()  # line: tp
    print(f"weights of tp: {state_bytes(block, torch.optim.AdamW(block.parameters()))[0]}")


def sequence_parallel(x):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor import parallel as tp

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))["tp"]
    block, half = Block(), x.chunk(2, 1)[dist.get_rank() % 2].clone().requires_grad_()
    gather = {"input_layouts": (Shard(1),), "desired_input_layouts": (Replicate(),)}
    names = ["attention.q", "attention.k", "attention.v", "mlp.gate", "mlp.up"]
    plan = {name: tp.ColwiseParallel() for name in names}
    plan |= {name: tp.RowwiseParallel(output_layouts=Shard(1)) for name in ("attention.o", "mlp.down")}
    plan |= {name: tp.PrepareModuleInput(**gather) for name in ("attention", "mlp")}
    plan |= {name: tp.SequenceParallel() for name in ("norm1", "norm2")}
    tp.parallelize_module(block, mesh, plan)
    block(half).sum().backward()  # line: sp


def pipeline(x):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    block, rank = Block(), dist.get_rank()
    stage = PipelineStage(block, rank, dist.get_world_size(), torch.device("cpu"))
    schedule = Schedule1F1B(stage, BATCH, loss_fn=functional.mse_loss)
    last = rank == dist.get_world_size() - 1
    schedule.step(*([x] if rank == 0 else []), target=x if last else None)  # line: pp


def activations(x):
    """Print the bytes that the forward of a block in bf16 stores for its backward, parameters aside.

    On the CPU, RMSNorm is no single kernel and stores copies in fp32; LayerNorm is one, as RMSNorm is on GPUs.
    """
    block = Block()
    block.norm1, block.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
    block = block.to(torch.bfloat16)
    own = {each.untyped_storage().data_ptr() for each in block.parameters()}
    stored = {}

    def store(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            stored[storage.data_ptr()] = storage.nbytes(), tensor  # the reference keeps the address from being reused
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(store, lambda tensor: tensor):
        out = block(x.to(torch.bfloat16).requires_grad_())
    print(f"stored bytes: {sum(size for size, _ in stored.values())}")
    del out


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    given = torch.randint(VOCABULARY, (BATCH, SEQUENCE))
    hidden = torch.randn(BATCH, SEQUENCE, HIDDEN)
    for phase in os.environ.get("PHASES", "ddp fsdp tensor_parallel sequence_parallel pipeline activations").split():
        globals()[phase](given if phase in ("ddp", "fsdp") else hidden)
    dist.destroy_process_group()
