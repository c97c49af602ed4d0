"""Collectives below torch.distributed, as the recorder sees them: FSDP, DTensor and functional collectives."""

import textwrap

import passed
import pytest
from inline_snapshot import snapshot
from recorded_calls import LINE, ONE, SUM, TWO, of, reported

from ddpquiz.events.event import Issued

pytestmark = passed.ENGINE


def test_the_operations_of_fsdp_are_seen(watch):
    body = """
    from torch.distributed.fsdp import fully_shard
    model = torch.nn.Linear(4, 4)
    fully_shard(model)
    model(torch.ones(2, 4)).sum().backward()
    """
    events = watch(body)
    found = [
        (event.operation.op, event.operation.line) for event in of(events, Issued) if event.operation.line == LINE + 4
    ]
    assert found == [("all_gather_into_tensor", LINE + 4), ("reduce_scatter_tensor", LINE + 4)]
    reported(events)


MESH = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
mesh = init_device_mesh("cpu", (world,))
"""


def test_the_operations_of_a_dtensor_are_seen_and_end_when_it_is_used(watch):
    body = "shard = distribute_tensor(torch.arange(4.0), mesh, [Shard(0)])\nwhole = shard.redistribute(mesh, [Replicate()]).to_local() + 1\n"
    found = [each for each in reported(watch(MESH + body)) if each[0].startswith("all_gather")]
    assert found == [("all_gather_into_tensor", None, "", True, ("[0.0, 1.0]",), ("[0.0, 1.0, 2.0, 3.0]",))]


def test_the_all_reduce_of_a_rowwise_layer_is_seen(watch):
    body = """
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "1": RowwiseParallel()})
    print(model(torch.ones(1, 2)).sum().item())
    """
    events = watch(MESH + textwrap.dedent(body))
    found = [event for event in of(events, Issued) if event.operation.op == "all_reduce"]
    line = LINE + MESH.count("\n") + 4
    assert [(event.operation.reduce, event.operation.shapes, event.operation.line) for event in found] == [
        ("sum", ((1, 2),), line)
    ]
    reported(events)


FUNCTIONAL = {
    'fc.all_reduce(x, "sum", group) + 0': ("all_reduce", "sum", (ONE,), (SUM,)),
    'fc.all_reduce(x, "max", group).wait()': ("all_reduce", "max", (ONE,), (TWO,)),
    "fc.all_gather_tensor(x, 0, group) + 0": ("all_gather_into_tensor", "", (ONE,), ("[1.0, 10.0, 2.0, 10.0]",)),
    'fc.reduce_scatter_tensor(x, "sum", 0, group) + 0': ("reduce_scatter_tensor", "sum", (ONE,), ("[3.0]",)),
    "fc.all_to_all_single(x, None, None, group) + 0": ("all_to_all_single", "", (ONE,), ("[1.0, 2.0]",)),
    "fc.broadcast(x, 1, group) + 0": ("broadcast", "", (ONE,), (TWO,)),
    'fc.all_reduce_coalesced([x, x + 1], "sum", group)[1] + 0': (
        "all_reduce_coalesced", "sum", (ONE, "[2.0, 11.0]"), (SUM, "[5.0, 22.0]")
    ),
}  # fmt: skip


@pytest.mark.parametrize("call", FUNCTIONAL)
def test_functional_collectives_are_seen_and_end_when_they_are_waited_for(watch, call):
    events = watch(f"import torch.distributed._functional_collectives as fc\ngroup = dist.group.WORLD\nused = {call}\n")
    op, reduce, before, after = FUNCTIONAL[call]
    assert [(each[0], *each[2:]) for each in reported(events)] == [(op, reduce, True, before, after)]
    assert [event.operation.line for event in of(events, Issued)] == [LINE + 2]


OLD_TORCH = """
import dataclasses, gc
import torch.distributed._functional_collectives as fc
from ddpquiz.ranks.inside.operations import Operator

gc.unfreeze()  # the server froze what it made
operators = [each for each in gc.get_objects() if isinstance(each, Operator)]
assert operators
"""
BEFORE_2_10 = """
class Old:
    def __init__(self, _):
        raise RuntimeError("ReduceOp has no field 'op'")

for each in operators:
    object.__setattr__(each, "private", dataclasses.replace(each.private, reduce_op_type=Old))
fc.all_reduce(x, "MAX", dist.group.WORLD) + 0
"""
BEFORE_2_8 = """
for each in operators:
    object.__setattr__(each, "asynchronous", None)
dist.all_reduce(x)
dist.all_reduce(x, async_op=True).wait()
fc.all_reduce(x, "sum", dist.group.WORLD) + 0
dist.all_gather_object([None] * world, "a")
with dist._coalescing_manager():
    dist.all_reduce(x)
    dist.all_reduce(pair[0])
dist.barrier()
dist.monitored_barrier()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
model(x).sum().backward()
"""


def test_a_functional_all_reduce_is_seen_on_a_torch_that_does_not_name_its_reduce_op(watch):
    assert [(event.operation.op, event.operation.reduce) for event in of(watch(OLD_TORCH + BEFORE_2_10), Issued)] == [
        ("all_reduce", "max")
    ]


def test_calls_are_seen_to_end_on_a_torch_whose_operators_do_not_say_which_are_asynchronous(watch):
    events = watch(OLD_TORCH + BEFORE_2_8)
    assert [(op, asynchronous) for op, _, _, asynchronous, _, _ in reported(events)] == snapshot(
        [
            ("all_reduce", False),
            ("all_reduce", True),
            ("all_reduce", True),
            ("all_gather", False),
            ("all_gather", False),
            ("all_reduce_coalesced", False),
            ("barrier", False),
            ("monitored_barrier", False),
            ("all_gather", False),
            ("broadcast", False),
            ("broadcast", False),
            ("all_reduce", True),
        ]
    )


def test_a_dispatch_mode_of_the_script_does_not_hide_how_it_calls(watch):
    body = """
    from torch.utils._python_dispatch import TorchDispatchMode
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))
    with Mode(), Mode():
        if rank == 0:
            dist.send(x, 1)
        else:
            dist.recv(x, 0)
        dist.all_reduce(x, op=dist.ReduceOp.MAX)
        dist.all_reduce(x, async_op=True).wait()
    """
    events = watch(body)
    found = [
        (event.operation.op, event.operation.asynchronous, event.operation.line - LINE) for event in of(events, Issued)
    ]
    assert found == [("send", False, 7), ("all_reduce", False, 10), ("all_reduce", True, 11)]
    assert [event.operation.asynchronous for event in of(events, Issued, rank=1)] == [False, False, True]
    reported(events)
