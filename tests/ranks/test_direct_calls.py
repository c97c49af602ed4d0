"""Collectives that are recorded without the dispatcher: the record is the same, and nobody else notices."""

import os
import subprocess
import sys

import passed
import pytest

from ddpquiz.events.event import Ended, Issued
from ddpquiz.jobs.rank_files import read_rank_files

pytestmark = passed.ENGINE

SCRIPT = """\
import os, sys, warnings, torch, torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode
from ddpquiz import record
from ddpquiz.ranks.inside import recorder, torch_private

kernels = []  # calls that pass a kernel of the recorder
issue = recorder.Recorder.issue
recorder.Recorder.issue = lambda self, operator, *rest: kernels.append(operator.op) or issue(self, operator, *rest)
if sys.argv[1] == "kernels":
    torch_private.find_direct.__code__ = (lambda: None).__code__
record.start(sys.argv[1])

class Seen(TorchDispatchMode):
    names = []
    def __torch_dispatch__(self, call, types, args=(), kwargs=None):
        self.names.append(str(call))
        return call(*args, **(kwargs or {}))

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
x = torch.ones(2, 3)
dist.all_reduce(x)
dist.all_reduce(x, op=dist.ReduceOp.MAX)
dist.all_reduce(x, async_op=True).wait()
dist.all_reduce(x.double(), group=dist.new_group([0]))
dist.broadcast(x, src=0)
dist.reduce(x, dst=0, op=dist.ReduceOp.PRODUCT)
dist.all_gather([torch.zeros(2, 3)], x)
z = torch.ones(2, dtype=torch.complex64)
dist.all_reduce(z)
try:
    dist.broadcast(x, src=1)
except Exception as error:
    print(type(error).__name__, str(error)[:40])
before = list(kernels)
with Seen():
    dist.all_reduce(x)
print([name for name in Seen.names if "c10d" in name])
with torch.profiler.profile() as profile:
    dist.all_reduce(x)
print([event.key for event in profile.key_averages() if "c10d" in event.key])
with warnings.catch_warnings(record=True) as found:
    w = torch.ones(2, requires_grad=True)
    y = w * 2
    dist.all_reduce(y)
    y.sum().backward()
print([str(each.message)[:16] for each in found])
print(kernels == before + ["all_reduce"] * 3, file=sys.stderr)
print(before, file=sys.stderr)
dist.destroy_process_group()
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
dist.all_reduce(x)
print(x.tolist(), z.tolist())
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("direct")
    (folder / "train.py").write_text(SCRIPT)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    return {
        how: (
            subprocess.run(
                [sys.executable, "train.py", how],
                cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=True,
            ),
            read_rank_files(folder / how),
        )
        for how in ("direct", "kernels")
    }  # fmt: skip


def test_direct_calls_record_what_the_kernels_record(both):
    (_, direct), (_, kernels) = both["direct"], both["kernels"]
    calls = [
        [(event.number, event.operation) for event in record.events if isinstance(event, Issued)]
        for record in (direct, kernels)
    ]
    assert calls[0] == calls[1]
    assert len(calls[0]) == 13
    ends = [{(e.number, e.failed) for e in record.events if isinstance(e, Ended)} for record in (direct, kernels)]
    assert ends[0] == ends[1]


def test_a_dispatch_mode_a_profiler_and_autograd_see_the_same_calls(both):
    (direct, _), (kernels, _) = both["direct"], both["kernels"]
    assert direct.stdout == kernels.stdout
    assert "['c10d.allreduce_.default']" in direct.stdout
    assert "'c10d::allreduce_'" in direct.stdout
    assert direct.stderr.splitlines()[-2:] == ["True", "[]"]
