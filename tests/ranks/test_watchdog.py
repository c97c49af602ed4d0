"""What is a hang, and what only takes long."""

import os
import sys
import time
from types import SimpleNamespace

import passed
import pytest
from inline_snapshot import snapshot
from real_run import end, of, run

from ddpquiz.events.event import Began, Hung, Issued, Started
from ddpquiz.events.operation import Operation
from ddpquiz.events.run_state import RunState
from ddpquiz.ranks import watchdog
from ddpquiz.ranks.watchdog import Watchdog

pytestmark = passed.ENGINE


def test_a_hang_names_what_each_rank_waits_in_and_where_it_stands(script):
    path = script("if rank == 1:\n    time.sleep(600)\ndist.all_reduce(x)\n")
    began = time.monotonic()
    events = run(path, ranks=3, timeout=1.0)
    assert time.monotonic() - began < 300  # it may have to load torch first
    hung = of(events, Hung)[0]
    assert [(each.waits_in, each.line) for each in hung.ranks] == [("all_reduce", 7), ("", 6), ("all_reduce", 7)]
    assert end(events).why == (
        snapshot(
            "Ranks 0 and 2 wait in all_reduce at script.py:7 for rank 1: it has not reached this call and was last seen at "
            "script.py:6."
        )
    )


@pytest.mark.parametrize("fresh", [False, True])
def test_no_rank_that_runs_python_is_asked_by_force(script, monkeypatch, fresh):
    monkeypatch.setattr(watchdog, "STACK_BY_FORCE", None)
    monkeypatch.setattr(watchdog, "_LATEST", 60)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    path = script("while rank == 1:\n    time.sleep(0.01)\ndist.all_reduce(x)\n")
    hung = of(run(path, timeout=1.0, fresh=fresh), Hung)[0]
    assert hung.ranks[1].line in (5, 6)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no thread of the rank answers first")
def test_a_rank_that_holds_pythons_lock_shows_where_it_stands(script):
    """None of its threads that run Python can answer."""
    holds = (
        "import ctypes\nif rank == 1:\n    ctypes.PyDLL(None).read(os.pipe()[0], ctypes.byref(ctypes.c_char()), 1)\n"
    )
    path = script(holds + "dist.all_reduce(x)\n")
    hung = of(run(path, timeout=1.0), Hung)[0]
    assert [(each.waits_in, each.line) for each in hung.ranks] == [("all_reduce", 8), ("", 7)]


def test_a_claim_that_waits_inside_another_module_stands_at_its_line(script, tmp_path):
    (tmp_path / "slow_value.py").write_text(
        "import torch.distributed as dist, torch\n"
        "class Slow:\n    def __bool__(self):\n        dist.recv(torch.ones(4), src=0)\n        return True\n"
    )
    body = """
    from slow_value import Slow
    value = Slow() if rank == 1 else True
    assert value, "it comes"
    dist.barrier()
    """
    hung = of(run(script(body), timeout=1.0), Hung)[0]
    assert [(each.waits_in, each.file.rpartition("/")[2], each.line) for each in hung.ranks] == [
        ("barrier", "script.py", 9),
        ("recv", "script.py", 8),
    ]


def test_waiting_twice_for_a_message_that_was_sent_is_a_hang(script):
    body = """
    if rank == 0:
        work = dist.isend(x, dst=1)
        work.wait()
        work.wait()
    else:
        dist.recv(x, src=0)
        time.sleep(60)
    """
    hung = of(run(script(body), timeout=1.0), Hung)[0]
    assert [(each.waits_in, each.line) for each in hung.ranks] == [("wait", 9), ("", 12)]


def test_a_long_computation_is_not_a_hang(script):
    path = script(
        "if rank == 1:\n    until = time.monotonic() + 2.5\n    while time.monotonic() < until: pass\ndist.all_reduce(x)\n"
    )
    assert end(run(path, timeout=1.0)).ok


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the processor time of a rank's children is not counted")
def test_a_long_computation_of_a_child_is_not_a_hang(script):
    """Of a DataLoader's worker, say."""
    body = """
    import subprocess, sys
    if rank == 1:
        code = "import time\\nuntil = time.monotonic() + 2.5\\nwhile time.monotonic() < until: pass"
        subprocess.run([sys.executable, "-c", code])
    dist.all_reduce(x)
    """
    assert end(run(script(body), timeout=1.0)).ok


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is not known what a process waits for")
def test_waiting_for_a_slow_disk_is_not_a_hang(script, tmp_path):
    """Linux shows a process that starts another one as it shows one that waits for a disk, until the other one runs.

    Here it first opens a pipe, which waits for whoever writes to it.
    """
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    body = f"""
    import os, subprocess
    if rank == 1:
        subprocess.Popen(["sh", "-c", "sleep 6; : > {pipe}"])
        os.posix_spawn("/bin/true", ["true"], {{}}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, {str(pipe)!r}, os.O_RDONLY, 0)])
    dist.all_reduce(x)
    """
    assert end(run(script(body), timeout=1.0, diagnose=True)).ok


def test_waiting_without_communication_is_not_a_hang(script):
    assert end(run(script("time.sleep(2)"), timeout=0.5)).ok


@pytest.mark.parametrize(("device", "hangs"), [("cuda", True), ("cpu", False)])
def test_a_rank_that_waits_for_a_gpu_spins_and_is_not_working(device, hangs):
    seen, used = RunState(), iter([{0: 1.0, 1: 0.0}, {0: 2.0, 1: 0.0}])
    seen.add(Began("train.py", (), 2, device, "nccl", ""))
    for rank in (0, 1):
        seen.add(Started(0.0, rank, 1))
    seen.add(Issued(0.5, 0, 1, Operation("all_reduce", (0, 1), None, ((4,),), "float32", 16, "train.py", 3)))
    watching = Watchdog(SimpleNamespace(cpu_seconds=lambda: next(used), wait_for_disk=lambda: False), 1.0, "train.py")
    watching._is_working(1.0, seen)
    assert watching._is_working(2.0, seen) is not hangs
