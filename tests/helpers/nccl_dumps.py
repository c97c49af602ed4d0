"""Dumps as NCCL's watchdog writes them, made by hand, since the tests run without GPUs.

Their fields are those that torch/csrc/distributed/c10d/FlightRecorder.hpp and FlightRecorderDetail.hpp of PyTorch 2.13
write (format 2.10). Names of operations and how those that are started together share a number are as
torch/distributed/flight_recorder/components/types.py, builder.py and utils.py read them.
"""

import json
import pickle

from ddpquiz.events.event import Began, check_ranks, decode, encode
from ddpquiz.events.timeline import Timeline
from ddpquiz.jobs.dumped_job import read_dumps

WORLD = {"0": (0, 1)}  # a group of two ranks
BEGIN = 1_700_000_000_000_000_000
MILLISECOND = 1_000_000
FRAMES = [
    {"name": "all_reduce", "filename": "/opt/python/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", "line": 2810},
    {"name": "wrapper", "filename": "/opt/python/lib/python3.11/site-packages/torch/distributed/c10d_logger.py", "line": 81},
    {"name": "sync", "filename": "/opt/python/lib/python3.11/site-packages/trainer/sync.py", "line": 12},
    {"name": "train", "filename": "/home/user/train.py", "line": 40},
    {"name": "<module>", "filename": "/home/user/main.py", "line": 7},
    {"name": "run", "filename": "/opt/python/lib/python3.11/runpy.py", "line": 86},
]  # fmt: skip


def entry(name, number, *, record, at, state="completed", retired=None, group="0", description="default_pg", **other):
    """An entry: `number` is its sequence number, `at` when it was issued, in milliseconds from the beginning."""
    is_p2p = name.startswith(("send", "recv")) or other.pop("p2p", False)
    created = BEGIN + at * MILLISECOND
    started, completed = created + MILLISECOND, created + 5 * MILLISECOND
    return {
        "frames": FRAMES, "record_id": record, "pg_id": 0, "process_group": (group, description),
        "thread_id": "1", "thread_name": "python",
        "collective_seq_id": 0 if is_p2p else number, "p2p_seq_id": number if is_p2p else 0, "op_id": record + 1,
        "profiling_name": f"nccl:{name}", "time_created_ns": created,
        "input_sizes": [[2, 3]], "input_dtypes": ["BFloat16"], "output_sizes": [[2, 3]], "output_dtypes": ["BFloat16"],
        "state": state,
        "time_discovered_started_ns": started if state != "scheduled" else None,
        "time_discovered_completed_ns": completed if state == "completed" else None,
        "retired": state == "completed" if retired is None else retired,
        "timeout_ms": 600_000, "is_p2p": is_p2p,
    } | other  # fmt: skip


def dump(entries, groups=None, last_completed=-1, version="2.10"):
    """The contents of a dump; `groups` are the members of each group by its name."""
    config = {name: {"name": name, "desc": "", "ranks": str(list(members))} for name, members in (groups or {}).items()}
    status = {
        "last_enqueued_collective": -1,
        "last_started_collective": -1,
        "last_completed_collective": last_completed,
    }
    return {
        "version": version, "comm_lib_version": "2.27.5", "pg_config": config, "pg_status": {"0": status},
        "entries": entries, "nccl_comm_state": {"0x1": {"rank": "0"}},
    }  # fmt: skip


def write(folder, dumps, form="pickle"):
    """Write the dump of each rank to a file; return the paths."""
    paths = []
    for rank, values in dumps.items():
        paths.append(folder / f"nccl_trace_rank_{rank}")
        if form == "pickle":
            paths[-1].write_bytes(pickle.dumps(values, protocol=2))
        else:
            paths[-1].write_text(json.dumps(values), "utf-8")
    return paths


def reduced(numbers, *, first=0, **options):
    """The entries of all_reduces with these sequence numbers, one a millisecond."""
    return [entry("all_reduce", number, record=first + at, at=number, **options) for at, number in enumerate(numbers)]


def read(folder, dumps, form="pickle"):
    return read_dumps(write(folder, dumps, form))


def timeline(job):
    """The timeline of a job, after every event was checked as one of a saved run is."""
    drawn = Timeline(None)
    for event in job.events:
        assert decode(encode(event)) == event
        check_ranks(event, job.events[0])
        drawn.add(event)
    assert [type(event) for event in job.events].count(Began) == 1
    return drawn
