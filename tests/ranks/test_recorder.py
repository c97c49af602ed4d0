"""What the recorder sees on real ranks: every operation of an unmodified script, and nothing of the script changed."""

import itertools
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import passed
import pytest
from recorded_calls import HEAD, LINE, ONE, ROOM, SUM, TWO, of, reported

from ddpquiz.events.event import Ended, Issued, Note, Output, Result, Waited, Waiting
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run

pytestmark = passed.ENGINE

TORCH = tuple(int(part) for part in version("torch").split(".")[:2])
GATHERS_OBJECTS = "all_gather_into_tensor" if TORCH >= (2, 15) else "all_gather"

# What a script calls, and what rank 0 reports of it; `...` stands for pickled bytes.
CALLS = {
    "dist.all_reduce(x)": [("all_reduce", None, "sum", False, (ONE,), (SUM,))],
    "dist.all_reduce(x, op=dist.ReduceOp.MAX)": [("all_reduce", None, "max", False, (ONE,), (TWO,))],
    "dist.all_reduce(x, async_op=True).wait()": [("all_reduce", None, "sum", True, (ONE,), (SUM,))],
    "dist.reduce(x, 0, op=dist.ReduceOp.MIN)": [("reduce", 0, "min", False, (ONE,), (ONE,))],
    "dist.broadcast(x, src=1)": [("broadcast", 1, "", False, (ONE,), (TWO,))],
    "dist.all_gather(pair, x)": [("all_gather", None, "", False, (ONE,), (ONE, TWO))],
    "dist.all_gather_into_tensor(torch.zeros(4), x)": [
        ("all_gather_into_tensor", None, "", False, (ONE,), ("[1.0, 10.0, 2.0, 10.0]",))
    ],
    "dist.reduce_scatter(torch.zeros(2), [x, x + 1])": [
        ("reduce_scatter", None, "sum", False, (ONE, "[2.0, 11.0]"), (SUM,))
    ],
    "dist.reduce_scatter_tensor(torch.zeros(1), x)": [
        ("reduce_scatter_tensor", None, "sum", False, (ONE,), ("[3.0]",))
    ],
    "dist.gather(x, pair if rank == 0 else None, dst=0)": [("gather", 0, "", False, (ONE,), (ONE, TWO))],
    "dist.scatter(torch.zeros(2), [x, x + 1] if rank == 0 else None, src=0)": [
        ("scatter", 0, "", False, (ONE, "[2.0, 11.0]"), (ONE,))
    ],
    "dist.scatter(torch.zeros(2), [x, x + 1] if rank == 1 else None, src=1)": [
        ("scatter", 1, "", False, (), (TWO,))
    ],
    "dist.all_to_all(pair, [x, x + 1])": [("all_to_all", None, "", False, (ONE, "[2.0, 11.0]"), (ONE, TWO))],
    "dist.all_to_all_single(torch.zeros(2), x)": [("all_to_all_single", None, "", False, (ONE,), ("[1.0, 2.0]",))],
    "dist.send(x, 1) if rank == 0 else dist.recv(x, 0)": [("send", 1, "", False, (ONE,), ())],
    "dist.send(x, 0) if rank == 1 else dist.recv(x, 1)": [("recv", 1, "", False, (), (TWO,))],
    "dist.send(x, 0) if rank == 1 else dist.recv(x)": [("recv", None, "", False, (), (TWO,))],
    "(dist.isend(x, 0) if rank == 1 else dist.irecv(x, 1)).wait()": [("recv", 1, "", True, (), (TWO,))],
    "(dist.isend(x, 1) if rank == 0 else dist.irecv(x, 0)).wait()": [("send", 1, "", True, (ONE,), ())],
    "for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, 1 - rank), dist.P2POp(dist.irecv, pair[0], 1 - rank)]): work.wait()": [
        ("send", 1, "", True, (ONE,), ()),
        ("recv", 1, "", True, (), (TWO,)),
    ],
    "dist.barrier()": [("barrier", None, "", False, (), ())],
    "dist.monitored_barrier()": [("monitored_barrier", None, "", False, (), ())],
    "with dist._coalescing_manager():\n    dist.all_reduce(x)\n    dist.all_reduce(pair[0])": [
        ("all_reduce_coalesced", None, "sum", False, (ONE, ROOM), (SUM, ROOM))
    ],
    "with dist._coalescing_manager(async_ops=True) as all_of_them:\n    dist.all_reduce(x)\nall_of_them.wait()": [
        ("all_reduce", None, "sum", True, (ONE,), (SUM,))
    ],
    "dist.all_gather_object([None] * world, 'a')": [(GATHERS_OBJECTS, None, "", False, ...)] * 2,
    "dist.broadcast_object_list(['a'], src=0)": [("broadcast", 0, "", False, ...)] * 2,
    "dist.gather_object('a', [None] * world if rank == 0 else None)": [
        ("all_gather", None, "", False, ...), ("gather", 0, "", False, ...)
    ],
    "dist.scatter_object_list([None], ['a', 'b'], src=0)": [
        ("broadcast", 0, "", False, ...), ("scatter", 0, "", False, ...), ("scatter", 0, "", False, ...)
    ],
    "dist.send_object_list(['a'], 1) if rank == 0 else dist.recv_object_list([None], 0)": [("send", 1, "", False, ...)] * 2,
}  # fmt: skip


def matches(found, wanted):
    return found[: wanted.index(...)] == wanted[: wanted.index(...)] if ... in wanted else found == wanted


@pytest.mark.parametrize("call", CALLS)
def test_each_call_is_seen_with_what_it_brings_and_leaves(watch, call):
    events = watch(call)
    found, wanted = reported(events), CALLS[call]
    assert len(found) == len(wanted)
    assert all(itertools.starmap(matches, zip(found, wanted, strict=True))), found
    assert {event.operation.line for event in of(events, Issued)} <= {LINE, LINE + 1, LINE + 2}


def test_an_operation_of_a_subgroup_names_its_members_and_its_peer_as_ranks_of_the_whole_run(watch):
    body = """
    group = dist.new_group([1, 2])
    if rank:
        dist.broadcast(x, src=2, group=group)
        dist.send(x, 2, group=group) if rank == 1 else dist.recv(x, 1, group=group)
    dist.all_reduce(x)
    """
    events = watch(body, ranks=3)
    groups = [(event.operation.op, event.operation.members, event.operation.peer) for event in of(events, Issued, 2)]
    assert groups == [("broadcast", (1, 2), 2), ("recv", (1, 2), 1), ("all_reduce", (0, 1, 2), None)]
    names = [event.operation.group for event in of(events, Issued, 2)]
    assert names[0] == names[1] != names[2]
    assert names == [event.operation.group for event in of(events, Issued, 1)]


@pytest.mark.parametrize("name", ["SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"])
def test_the_reduce_op_has_the_name_that_users_write(watch, name):
    dtype = "torch.int32" if name.startswith("B") else "torch.float32"
    events = watch(f"dist.all_reduce(torch.ones(2, dtype={dtype}), op=dist.ReduceOp.{name})")
    assert [event.operation.reduce for event in of(events, Issued)] == [name.lower()]


def test_an_operation_that_the_backend_refuses_is_seen_all_the_same(watch):
    body = "try:\n    dist.all_reduce(x, op=dist._make_nccl_premul_sum(2.0))\nexcept RuntimeError as why:\n    print(f'why: {why}')\n"
    events = watch(body)
    assert [(event.operation.op, event.operation.reduce) for event in of(events, Issued)] == [
        ("all_reduce", "premul_sum")
    ]
    assert "PREMUL_SUM" in of(events, Output)[0].value


VALUES = {
    "torch.tensor([1, 2])": ("int64", "[1, 2]", "[2, 4]"),
    "torch.tensor(2.5)": ("float32", "2.5", "5.0"),
    "torch.tensor([[1.5], [2.0]], dtype=torch.bfloat16)": ("bfloat16", "[[1.5], [2.0]]", "[[3.0], [4.0]]"),
    "torch.tensor([True, False])": ("bool", "[True, False]", "[True, False]"),
    "torch.tensor([1 + 2j])": ("float32", "[[1.0, 2.0]]", "[[2.0, 4.0]]"),  # torch hands on pairs of numbers
    "torch.tensor([float('nan'), float('inf')])": ("float32", "[nan, inf]", "[nan, inf]"),
    "torch.zeros(0)": ("float32", "[]", "[]"),
    "torch.arange(4.0).reshape(2, 2).T": ("float32", "[[0.0, 2.0], [1.0, 3.0]]", "[[0.0, 4.0], [2.0, 6.0]]"),
    "torch.ones(17)": ("float32", None, None),
}


@pytest.mark.parametrize("tensor", VALUES)
@pytest.mark.parametrize("wait", ["dist.all_reduce(t)", "dist.all_reduce(t, async_op=True).wait()"])
def test_values_are_reported_before_and_after_if_there_are_few(watch, tensor, wait):
    events = watch(f"t = {tensor}\n{wait}\nt.zero_()\n")
    dtype, before, after = VALUES[tensor]
    (issued,) = of(events, Issued)
    assert (issued.operation.dtype, issued.before) == (dtype, () if before is None else (before,))
    assert [event.after for event in of(events, Result)] == ([] if after is None else [(after,)])


def test_a_wait_is_reported_when_it_lasts(watch):
    body = """
    if rank == 1:
        time.sleep(1)  # or rank 0 comes late itself, on a busy machine
    work = dist.all_reduce(x, async_op=True)
    if rank == 1:
        time.sleep(0.2)
    work.wait()
    """
    events = watch(body)
    (waited,), (issued,) = of(events, Waited), of(events, Issued)
    assert issued.time <= waited.since < waited.time - 0.2
    assert waited.number == issued.number
    assert sum(event.time - event.since for event in of(events, Waited, 1)) < 0.1, "rank 1 came when it was done"


WAITS = {
    "dist.all_reduce(x, async_op=True).wait()": "",
    "dist.all_reduce(x, async_op=True).get_future().wait()": "",
    "print(functional.all_reduce(x, 'sum', dist.group.WORLD).sum())": "functional",  # imports much, the first time
    "replica(x).sum().backward()": "replica = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))",
}


@pytest.mark.parametrize("wait", WAITS)
def test_that_a_rank_begins_to_wait_is_reported_before_it_has_waited(watch, wait):
    head = f"import torch.distributed._functional_collectives as functional\n{WAITS[wait]}\n"
    events = watch(f"{head}{wait}\n{wait}\nif rank == 1: time.sleep(1)\n{wait}\n")  # DDP makes its buckets anew once
    began, waited = of(events, Waiting)[-1], of(events, Waited)[-1]
    assert (began.number, began.time) == (waited.number, waited.since)
    assert waited.time - waited.since > 0.2


@pytest.mark.parametrize("call", ["dist.all_reduce(x, group=g)", "dist.all_reduce(x, group=g, async_op=True).wait()"])
def test_an_operation_that_runs_into_its_time_out_is_reported_to_have_failed(watch, call):
    body = f"""
    from datetime import timedelta
    g = dist.new_group(timeout=timedelta(seconds=1.5))  # in which both must join it, too
    if rank == 0:
        try:
            {call}
        except RuntimeError:
            print("gave up")
    time.sleep(2)
    """
    events = watch(body)
    issued = next(event for event in of(events, Issued) if event.operation.op == "all_reduce")
    assert [(event.number, event.failed) for event in of(events, Ended)][-1] == (issued.number, True)
    assert not [event for event in of(events, Result) if event.number == issued.number]


def test_an_operation_that_refuses_at_once_is_reported_to_have_failed(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    path = tmp_path / "script.py"
    path.write_text(
        f"{HEAD}try:\n    dist.all_reduce(torch.ones(2 + rank))\nexcept RuntimeError:\n    print('refused')\n"
    )
    events = list(Run(Request(path, ranks=2, device="cpu", timeout=10.0)).events())
    assert [event.text for event in of(events, Output)] == ["refused"]
    issued = next(event for event in of(events, Issued) if event.operation.op == "all_reduce")
    assert [(event.number, event.failed) for event in of(events, Ended) if event.number == issued.number] == [
        (issued.number, True)
    ]


def test_works_without_a_wait_are_released(watch):
    body = """
    import gc
    from ddpquiz.ranks.inside import operations
    operations.MOST_OPEN = 10
    large = [dist.all_reduce(torch.ones(100), async_op=True) for _ in range(50)]
    dist.barrier()
    small = [dist.all_reduce(torch.ones(1), async_op=True) for _ in range(50)]
    dist.barrier()
    time.sleep(0.2)
    open_ones = [each for each in gc.get_objects() if isinstance(each, operations.OpenOperation)]
    print("open:", len(open_ones))
    """
    events = watch(body)
    assert 0 < int(of(events, Output)[0].value) <= 10
    reported(events)


HELPER = """
import torch.distributed as dist
def average(x):
    dist.all_reduce(x)
    x /= dist.get_world_size()
from torch.utils._python_dispatch import TorchDispatchMode
class Counting(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **kwargs or {})
"""
# fmt: off
PLACES = {
    "def step():\n    average(x)\nstep()": ("helper.py", 4),  # the deepest line of the project
    "average(x)": ("helper.py", 4),
    "with Counting():\n    dist.all_reduce(x)": ("script.py", LINE + 1),  # a mode that is told of every call
    "import functools\nfunctools.partial(dist.all_reduce, x)()": ("script.py", LINE + 1),
    "act = lambda: dist.all_reduce(x)\n\nact()": ("script.py", LINE),
    "import threading\nt = threading.Thread(target=dist.all_reduce, args=(x,)); t.start(); t.join()": (
        "script.py", LINE + 1
    ),
    "import torch.distributed.nn\ntorch.distributed.nn.all_reduce(x)": ("script.py", LINE + 1),
}
# fmt: on


@pytest.mark.parametrize("body", PLACES)
def test_the_line_is_one_of_the_users_own(watch, tmp_path, body):
    (tmp_path / "helper.py").write_text(HELPER)
    (issued,) = of(
        watch(body, head=HEAD.replace("import os,", "from helper import average, Counting; import os,")), Issued
    )
    assert (Path(issued.operation.file).name, issued.operation.line) == PLACES[body]


TRAINING = """
import hashlib, torch.nn as nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel as DDP
def net():
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(7, 130), nn.Tanh(), nn.Linear(130, 5), nn.Tanh(), nn.Linear(5, 3))
def train(model):
    torch.manual_seed(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(6):
        optimizer.zero_grad()
        model(torch.randn(9, 7)).square().mean().backward()
        optimizer.step()
    whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in whole)).hexdigest()
print("replicated:", train(DDP(net(), bucket_cap_mb=0.001)))
print("sharded:", train(fully_shard(net())))
"""


def test_watching_does_not_change_a_single_bit_of_what_is_trained(watch, tmp_path):
    watched = {(event.rank, event.label): event.value for rank in (0, 1) for event in of(watch(TRAINING), Output, rank)}
    assert len(watched) == 4
    plain = tmp_path / "plain.py"
    plain.write_text(
        HEAD.replace('"gloo"', '"gloo", init_method=sys.argv[1], world_size=2, rank=int(sys.argv[2])')
        + TRAINING
        + "sys.stdout.flush(); os._exit(0)\n"
    )
    command = [sys.executable, plain, f"file://{tmp_path}/store"]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    alone = [subprocess.Popen([*command, rank], env=env, stdout=subprocess.PIPE, text=True) for rank in "01"]
    unwatched = {
        (rank, line.split(": ")[0]): line.split(": ")[1]
        for rank, process in enumerate(alone)
        for line in process.communicate(timeout=120)[0].splitlines()
    }
    assert watched == unwatched


FAULTS = {
    "recorder.values_of": "dist.all_reduce(x)",  # before the operation
    "kernels.work_of": "dist.all_reduce(x)",  # after it
    "OpenOperations.waited": "dist.all_reduce(x)",  # after the wait for it
    "OpenOperations.remove": "m = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1)); m(x).sum().backward()",
}


@pytest.mark.parametrize("where", FAULTS)
def test_a_fault_of_the_recorder_never_reaches_the_script(tmp_path, where):
    path = tmp_path / "script.py"
    plant = "from ddpquiz.ranks.inside import kernels, recorder\nfrom ddpquiz.ranks.inside.operations import OpenOperations\nif rank == 0:\n    {}\n"
    path.write_text(
        HEAD
        + plant.format(f"{where} = lambda *_, **__: 1 / 0")
        + f"{FAULTS[where]}\nprint('end:', x.tolist())\ndist.destroy_process_group()\n"
    )
    events = list(Run(Request(path, ranks=2, device="cpu", timeout=10.0)).events())
    assert events[-1].ok
    assert "The recorder missed an operation: ZeroDivisionError('division by zero')" in {
        event.text for event in of(events, Note)
    }
    assert len([event for event in events if isinstance(event, Output)]) == 2
