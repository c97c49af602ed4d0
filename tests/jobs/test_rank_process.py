"""Whether the process of a rank runs: by its number, which means nothing in another PID namespace or on another boot."""

import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from ddpquiz.events.event import Began, Recorded
from ddpquiz.events.run_state import RunState
from ddpquiz.jobs.rank_files import find_unended, read_rank_files
from ddpquiz.jobs.rank_process import ProcessSpace, find_process
from ddpquiz.ranks.inside.rank_writer import RankWriter
from ddpquiz.terminal.runs.job_watch import JobFollower

HERE = ProcessSpace.here()
RECORDED = Recorded(0.0, 0, HERE.host, HERE.boot, time.monotonic(), time.time(), pids=HERE.pids)


@pytest.fixture(scope="module")
def gone():
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
        return child.pid


def test_a_process_runs_until_it_has_ended_also_if_nobody_has_asked_how(gone):
    assert find_process(RECORDED, os.getpid(), HERE) == "runs"
    assert find_process(RECORDED, gone, HERE) == "gone"
    assert find_process(RECORDED, 1 << 40, HERE) == "gone"
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as zombie:
        zombie.stdout.read()
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        assert find_process(RECORDED, zombie.pid, HERE) == "gone"


def test_a_process_that_began_later_has_only_the_number():
    assert find_process(replace(RECORDED, clock=0.001), os.getpid(), HERE) == "gone"


@pytest.mark.parametrize("field", ["host", "boot", "pids"])
def test_of_another_host_boot_or_pid_namespace_nothing_is_known(field, gone):
    for other in ("another", ""):
        elsewhere = replace(RECORDED, **{field: other})
        assert find_process(elsewhere, gone, HERE) == find_process(elsewhere, os.getpid(), HERE) == "unknown"


def test_where_the_system_does_not_name_the_namespace_nothing_is_known(gone):
    assert find_process(replace(RECORDED, pids=""), gone, HERE._replace(pids="")) == "unknown"


def test_the_ranks_of_a_container_with_our_host_name_are_not_gone(tmp_path, gone, monkeypatch):
    """Nor does `watch` take its job for one that is over."""
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: gone)
        writer = RankWriter(tmp_path, 100, Began("/train.py", (), 1, "cpu", "gloo", "Recorded."), 0)
    writer.open(0)
    writer.close()
    path = tmp_path / "rank-0.jsonl"
    assert f'"pids": "{HERE.pids}"' in path.read_text()

    def seen():
        record, follower = read_rank_files(tmp_path), JobFollower(tmp_path)
        follower.read()
        return find_unended(record, RunState.after(record.events)), follower.gone

    assert seen() == ({0: "gone"}, {0})
    path.write_text(path.read_text().replace(HERE.pids, "pid:[1]"))
    assert seen() == ({0: "unknown"}, frozenset())


SPACE = "from ddpquiz.jobs.rank_process import ProcessSpace; print(ProcessSpace.here().pids)"


@pytest.mark.parametrize("option", ["--mount-proc", "--fork"])
def test_a_real_namespace_of_its_own_is_another_one_and_none_where_proc_shows_others(option):
    command = ["unshare", "--user", "--map-root-user", "--pid", "--fork", option, sys.executable, "-P", "-c", SPACE]
    made = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    if made.returncode:
        pytest.skip(f"no PID namespace can be made here: {made.stderr}")
    named = made.stdout.strip()
    assert named != HERE.pids
    assert named.startswith("pid:[") == (option == "--mount-proc")
