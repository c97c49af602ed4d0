"""While one rank is late for an operation, the others wait in it: every operation, whoever issues it."""

import itertools
import re

import passed
import pytest
from real_run import HEAD, end, of, run

from ddpquiz.events.event import Output
from ddpquiz.events.timeline import Timeline

pytestmark = passed.ENGINE

LATE, WAIT = 0.3, 0.15  # seconds for which rank 0 sleeps once rank 1 calls, and for which rank 1 must wait at least
PLAY = """
from torch.nn.parallel import DistributedDataParallel as DDP
import torch.distributed._functional_collectives as functional
from torch.distributed.fsdp import fully_shard

store = dist.distributed_c10d._get_default_store()

def play(name, call):
    dist.barrier()
    print("now:", name)
    if rank == 0:
        store.get(name)
        time.sleep({late})
    else:
        store.set(name, "is about to call")
    call()

y, parts = torch.zeros(2), [torch.zeros(2), torch.zeros(2)]
"""
CALLS = {
    "collectives": """
play("all_reduce", lambda: dist.all_reduce(x))
play("broadcast", lambda: dist.broadcast(x, src=0))
play("reduce", lambda: dist.reduce(x, dst=1))
play("all_gather", lambda: dist.all_gather(parts, x))
play("all_gather_into_tensor", lambda: dist.all_gather_into_tensor(torch.zeros(4), x))
play("gather", lambda: dist.gather(x, parts if rank == 1 else None, dst=1))
play("scatter", lambda: dist.scatter(y, parts if rank == 0 else None, src=0))
play("reduce_scatter", lambda: dist.reduce_scatter(y, parts))
play("reduce_scatter_tensor", lambda: dist.reduce_scatter_tensor(torch.zeros(1), x))
play("all_to_all_single", lambda: dist.all_to_all_single(y, x))
play("barrier", lambda: dist.barrier())
play("monitored_barrier", lambda: dist.monitored_barrier())
""",
    "others": """
def batch():
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend if rank == 0 else dist.irecv, y, 1 - rank)]):
        work.wait()

play("recv", lambda: dist.send(x, 1) if rank == 0 else dist.recv(y, 0))
play("irecv", lambda: dist.send(x, 1) if rank == 0 else dist.irecv(y, 0).wait())
play("batch_isend_irecv", batch)
play("async_op", lambda: dist.all_reduce(x, async_op=True).wait())
play("all_gather_object", lambda: dist.all_gather_object([None, None], rank))
play("broadcast_object_list", lambda: dist.broadcast_object_list([rank], src=0))
play("functional", lambda: functional.all_reduce(x, "sum", dist.group.WORLD) + 0)
play("store.get", lambda: store.set("key", "1") if rank == 0 else store.get("key"))
play("new_group", lambda: dist.new_group([0, 1]))
""",
    "models": """
dense, normed = torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)
play("the constructor of DDP", lambda: DDP(dense))
model = DDP(torch.nn.Sequential(dense, normed), bucket_cap_mb=1)
play("the buffers of DDP", lambda: model(torch.randn(4, 2)))
loss = model(torch.randn(4, 2)).sum()
play("the buckets of DDP", lambda: loss.backward())
plain = DDP(torch.nn.Linear(2, 2))
plain(x).sum().backward()
play("the second forward of DDP", lambda: plain(x))
sharded = fully_shard(torch.nn.Linear(2, 2))
play("FSDP", lambda: sharded(x))
""",
}


@pytest.mark.parametrize("kind", CALLS)
def test_whoever_issues_an_operation_the_others_wait_in_it_for_a_rank_that_is_late(kind, script):
    events = run(script(PLAY.format(late=LATE) + CALLS[kind] + '\nprint("now: over")\ndist.barrier()\n'))
    assert end(events).ok, end(events).why
    timeline = Timeline(limit=None)
    for event in events:
        timeline.add(event)
    spans = timeline.spans(1, end(events).time)
    marks = [(each.time, each.value) for each in of(events, Output) if each.rank == 1 and each.label == "now"]
    waited = {
        name: sum(span.end - span.start for span in spans if span.kind == "waiting" and since <= span.start < until)
        for (since, name), (until, _) in itertools.pairwise(marks)
    }
    assert list(waited) == re.findall(r'play\("(.+?)"', CALLS[kind])
    assert {name: seconds for name, seconds in waited.items() if seconds < WAIT} == {}


def test_ranks_that_form_the_default_group_wait_in_init_process_group(tmp_path):
    path = tmp_path / "late.py"
    path.write_text(f"import os, time\nif os.environ['RANK'] == '0':\n    time.sleep({LATE})\n{HEAD}")
    events = run(path)
    timeline = Timeline()
    for event in events:
        timeline.add(event)
    waits = [span for span in timeline.spans(1, end(events).time) if span.op == "init_process_group"]
    assert [span.kind for span in waits] == ["waiting"]
    assert waits[0].end - waits[0].start > WAIT
