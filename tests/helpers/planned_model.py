"""A small transformer and its training on four ranks with PyTorch's own parallelisms, to compare with the planner.

As a script it does one step with each, and prints the name of each before it.
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

LAYERS, HIDDEN, HEADS, KV, SIZE, FFN, VOCABULARY, SEQUENCE, BATCH = 2, 64, 4, 2, 16, 128, 128, 32, 8
CAP_MB = 0.03  # of DDP's buckets, so that there are several
MICRO_BATCHES, ACTIVE = 2, 2  # of ZeRO-1 and 2; experts that a token goes to
ON_TOKENS = ("ddp", "fsdp", "hsdp", "zero_1", "zero_2")
PHASES = (
    *ON_TOKENS, "expert_parallel", "context_parallel", "tensor_parallel", "sequence_parallel", "pipeline", "activations",
)  # fmt: skip


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
    """The bytes of weights, gradients and Adam's two moments on this rank."""

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


def hsdp(tokens):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model, mesh = Model(), init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()


def zero_1(tokens):
    """FSDP2 whose weights stay gathered for a step, and whose gradients are reduced after the last micro-batch."""
    keep_weights(tokens, every_micro_batch=False)


def zero_2(tokens):
    """The same, with gradients that are reduced after each micro-batch."""
    keep_weights(tokens, every_micro_batch=True)


def keep_weights(tokens, *, every_micro_batch):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model, mesh = Model(), init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=False)
    fully_shard(model, mesh=mesh, reshard_after_forward=False)
    micro_batches = tokens.chunk(MICRO_BATCHES)
    for number, part in enumerate(micro_batches, 1):
        is_last = number == len(micro_batches)
        model.set_requires_gradient_sync(every_micro_batch or is_last)
        model.set_reshard_after_backward(is_last)
        functional.cross_entropy(model(part).flatten(0, 1), part.flatten()).backward()


def expert_parallel(x):
    """A layer with one expert on each rank; every token goes to two experts, and the router is even."""
    from torch.distributed._functional_collectives import all_to_all_single_autograd

    world = dist.get_world_size()
    expert = nn.Linear(HIDDEN, HIDDEN, bias=False)
    routed = x.flatten(0, 1).repeat(ACTIVE, 1).requires_grad_()
    even = [len(routed) // world] * world

    def exchange(rows):
        return all_to_all_single_autograd(rows, even, even, dist.group.WORLD)

    exchange(expert(exchange(routed))).sum().backward()


class Ring(torch.autograd.Function):
    """Passes keys and values around the ring. Backward passes them again, and their gradients until they are home.

    PyTorch's own context parallelism needs attention kernels that only GPUs have.
    """

    @staticmethod
    def forward(context, queries, pair):
        context.save_for_backward(queries, pair)
        return sum(queries @ block[0].transpose(-1, -2) @ block[1] for block in around(pair))

    @staticmethod
    def backward(context, gradient):
        queries, pair = context.saved_tensors
        of_queries, of_pair = torch.zeros_like(queries), torch.zeros_like(pair)
        for block in around(pair):
            keys, values = block
            of_queries += gradient @ values.transpose(-1, -2) @ keys
            of_keys = (gradient @ values.transpose(-1, -2)).transpose(-1, -2) @ queries
            of_values = (queries @ keys.transpose(-1, -2)).transpose(-1, -2) @ gradient
            of_pair = pass_on(of_pair + torch.stack([of_keys, of_values]))
        return of_queries, of_pair


def around(pair):
    """Yield the keys and values of each rank, this rank's own first."""
    yield pair
    for _ in range(dist.get_world_size() - 1):
        pair = pass_on(pair)
        yield pair


def pass_on(block):
    rank, world = dist.get_rank(), dist.get_world_size()
    arrived = torch.empty_like(block)
    ops = [
        dist.P2POp(dist.isend, block.contiguous(), (rank + 1) % world),
        dist.P2POp(dist.irecv, arrived, (rank - 1) % world),
    ]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    return arrived


def context_parallel(x):
    """Attention without a softmax, in which each rank has the queries, keys and values of its own tokens."""
    world, rank = dist.get_world_size(), dist.get_rank()
    whole = [torch.randn(1, SEQUENCE, KV * SIZE, dtype=torch.float64) for _ in range(3)]
    own = [each.chunk(world, 1)[rank].clone().requires_grad_() for each in whole]
    out = Ring.apply(own[0], torch.stack(own[1:]))
    (out * out).sum().backward()
    for each in whole:
        each.requires_grad_()
    right = whole[0] @ whole[1].transpose(-1, -2) @ whole[2]
    (right * right).sum().backward()
    for mine, all_of_it in zip(own, whole, strict=True):
        assert torch.allclose(mine.grad, all_of_it.grad.chunk(world, 1)[rank]), (
            "the ring has the gradients of the whole"
        )


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
    for phase in os.environ.get("PHASES", " ".join(PHASES)).split():
        print(f"phase: {phase}")
        globals()[phase](given if phase in ON_TOKENS else hidden)
    dist.destroy_process_group()
