"""Runs of real ranks on the CPU, and the scripts that they run."""

from ddpquiz.events.event import End, Note
from ddpquiz.ranks.elastic_run import begin
from ddpquiz.ranks.request import Request

HEAD = """\
import os, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
x = torch.ones(2) * (rank + 1)
"""

# The environment of a script that is the only rank, as a launcher sets it.
ALONE = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "GLOO_SOCKET_IFNAME": "lo"}


KEEPS_GROUPS = "this run keeps its groups, and so it ends."  # a note of each run on torch 2.6 and 2.7


def run(path, ranks=2, **request):
    events = begin(Request(path, ranks=ranks, device="cpu", **{"timeout": 20.0} | request)).events()
    return [each for each in events if not (isinstance(each, Note) and each.text.endswith(KEEPS_GROUPS))]


def of(events, kind):
    return [event for event in events if isinstance(event, kind)]


def end(events):
    assert isinstance(events[-1], End)
    return events[-1]
