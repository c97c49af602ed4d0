"""The buckets of DDP, as the recorder sees them."""

import passed
import pytest
from recorded_calls import of

from ddpquiz.events.event import Issued, Result, Waited

pytestmark = passed.ENGINE

TWO_BUCKETS = """
from torch.nn.parallel import DistributedDataParallel as DDP
model = DDP(torch.nn.Sequential(torch.nn.Linear(300, 300), torch.nn.Linear(300, 300)), bucket_cap_mb=0.3)
{}
for _ in range(3):
    time.sleep(0.05 * rank)  # so that rank 0 waits: a wait that takes no time is not reported
    model(torch.ones(2, 300)).sum().backward()
    dist.all_reduce(x)
"""
HOOKS = {
    "": "all_reduce",
    "model._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)": "all_reduce",
    "from torch.distributed.algorithms.ddp_comm_hooks import default_hooks as h\n"
    "model.register_comm_hook(None, h.fp16_compress_wrapper(h.allreduce_hook))": "all_reduce",
    "def hook(state, bucket):\n"
    "    out = [torch.zeros_like(bucket.buffer()) for _ in range(world)]\n"
    "    return dist.all_gather(out, bucket.buffer(), async_op=True).get_future().then(lambda _: sum(out) / world)\n"
    "model.register_comm_hook(None, hook)": "all_gather",
}


@pytest.mark.parametrize("hook", HOOKS, ids=["none", "C++", "wrapped", "own"])
def test_the_buckets_of_ddp_are_numbered_within_each_backward_whoever_reduces_them(watch, hook):
    events = watch(TWO_BUCKETS.format(hook))
    issued = [event for event in of(events, Issued) if event.operation.bucket is not None]
    assert [event.operation.bucket for event in issued] in (
        [0, 0, 1, 0, 1],
        [0, 1] * 3,
    )  # torch joins them in the first step
    assert {(event.operation.op, event.operation.asynchronous) for event in issued} == {(HOOKS[hook], True)}
    mine = [
        event
        for event in of(events, Issued)
        if event.operation.op == "all_reduce" and event.operation.shapes == ((2,),)
    ]
    assert [event.operation.bucket for event in mine] == [None] * 3
    last = [event.number for event in issued if event.operation.bucket][-1]
    assert last in {event.number for event in of(events, Waited)}, "the end of the backward waits for the last bucket"


def test_what_a_bucket_held_is_reported_when_the_reducer_has_waited_for_it(watch):
    body = """
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1), gradient_as_bucket_view=True)
    for step in range(2):
        model(x[None] * (step + 1)).sum().backward()
        for p in model.parameters():
            p.grad.zero_()
    """
    left = {event.number: event.after for event in of(watch(body), Result)}
    found = [
        (event.operation.bucket, event.before, left[event.number])
        for event in of(watch(body), Issued)
        if event.operation.bucket is not None
    ]
    assert found == [
        (0, ("[0.5, 5.0, 0.5]",), ("[1.5, 10.0, 1.0]",)),
        (0, ("[0.5, 1.0, 10.0]",), ("[1.0, 3.0, 20.0]",)),
    ]


def test_all_reduces_of_the_script_in_a_backward_are_not_buckets(watch):
    body = """
    y = x.clone().requires_grad_()
    y.register_hook(lambda grad: dist.all_reduce(grad))
    y.sum().backward()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2), find_unused_parameters=True)
    model(x).sum().backward()
    """
    events = watch(body)
    assert [(event.operation.bucket, event.operation.dtype) for event in of(events, Issued) if event.operation.op == "all_reduce"] == [
        (None, "float32"), (0, "float32"), (None, "int32"),  # the last one says which rank used which parameter
    ]  # fmt: skip
