"""Scripts that the recorder watches, and what it reports of their calls."""

from ddpquiz.events.event import Ended, Issued, Result

HEAD = """\
import os, sys, time, warnings, torch, torch.distributed as dist
warnings.simplefilter("ignore")
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
x = torch.tensor([1.0 + rank, 10.0])
pair = [torch.zeros(2) for _ in range(world)]
"""
LINE = HEAD.count("\n") + 1  # of the body's first line


def of(events, kind, rank=0):
    return [event for event in events if isinstance(event, kind) and event.rank == rank]


def reported(events, rank=0):
    """What is reported of each operation: how it was called, what it brought and what it left."""
    left = {event.number: event.after for event in of(events, Result, rank)}
    issued = of(events, Issued, rank)
    assert [event.number for event in issued] == list(range(1, len(issued) + 1))
    assert sorted(event.number for event in of(events, Ended, rank)) == [event.number for event in issued]
    return [
        (
            each.operation.op,
            each.operation.peer,
            each.operation.reduce,
            each.operation.asynchronous,
            each.before,
            left.get(each.number, ()),
        )
        for each in issued
    ]


ONE, TWO, SUM = "[1.0, 10.0]", "[2.0, 10.0]", "[3.0, 20.0]"
ROOM = "[0.0, 0.0]"
