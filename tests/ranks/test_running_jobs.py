"""`ddpquiz where`: the ranks of jobs that other launchers started, and which of them does not stand where others wait."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import passed
import pytest

from ddpquiz.diagnosis.stack_diagnosis import diagnose_stacks
from ddpquiz.errors import UserError
from ddpquiz.jobs.stacks import stacks_of_ranks
from ddpquiz.ranks import process_stacks
from ddpquiz.ranks.forks import process_tree
from ddpquiz.ranks.running_jobs import APART, find_jobs, ranks_below

TORCHRUN = Path(sys.executable).with_name("torchrun")
HANGS = """\
import time
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

loader = iter(DataLoader(torch.arange(100), num_workers=1))  # its worker inherits RANK
next(loader)
dist.init_process_group("gloo")
rank = dist.get_rank()


def load_batch():
    if rank == 2:
        time.sleep(1000)
    return torch.ones(4)


def train():
    x = load_batch()
    dist.all_reduce(x)


train()
"""

pytestmark = [passed.COMMANDS, pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")]


@pytest.fixture
def start():
    """Start programs; at the end, they and all that they started are killed."""
    started = []

    def start(*words, **environment):
        without = {"RANK", "WORLD_SIZE"} - environment.keys()
        given = {name: value for name, value in os.environ.items() if name not in without} | environment
        started.append(subprocess.Popen([*map(str, words)], env=given, stdout=subprocess.DEVNULL))
        return started[-1].pid

    yield start
    for process in started:
        for pid in [*process_tree(process.pid)]:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                continue
        process.wait()


def until(look, is_right):
    """Look until what is seen is right; a rank that has not begun yet is not found."""
    seen, end = None, time.monotonic() + 120
    while time.monotonic() < end:
        try:
            seen = look()
        except UserError as error:
            seen = error
        else:
            if is_right(seen):
                return seen
        time.sleep(0.05)
    raise AssertionError(f"seen last: {seen}")


def judge(pid):
    (job,) = find_jobs(pid)
    return job, diagnose_stacks(stacks_of_ranks(job.ranks, APART, job.processes))


@pytest.fixture
def hanging(start, tmp_path):
    """The process of torchrun, once three of its four ranks wait in all_reduce for the fourth."""
    script = tmp_path / "train.py"
    script.write_text(HANGS)
    pid = start(
        TORCHRUN, "--standalone", "--nproc-per-node", 4, script, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo"
    )  # fmt: skip
    until(lambda: judge(pid)[1], lambda found: found.fault == "late" and len(found.positions) == 2)
    return pid


def test_a_hanging_job_of_torchrun_is_told_from_its_stacks_alone(hanging):
    job, found = judge(hanging)
    assert (job.ranks, [each.rank for each in job.processes], Path(job.script).name) == (4, [0, 1, 2, 3], "train.py")
    assert [each.moved for each in job.processes] == [False] * 4
    assert (found.fault, found.culprits) == ("late", (2,))
    assert found.sentence == (
        "Ranks 0, 1 and 3 are in all_reduce at train.py:20. Rank 2 is not there: it is in load_batch at train.py:14."
    )
    pids = {each.rank: each.pid for each in job.processes}
    assert found.evidence[0] == f"process {pids[2]}: rank 2 in load_batch at train.py:14"


WAITS = """\
import time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
if dist.get_rank() == 1:
    time.sleep(1000)
work = dist.all_reduce(torch.ones(4), async_op=True)
{wait}
"""


@pytest.mark.parametrize("wait", ["work.wait()", "work.get_future().wait()"])
@pytest.mark.parametrize("way", ["record", "run"])
def test_a_rank_that_waits_for_an_asynchronous_operation_waits_also_while_ddpquiz_watches_it(
    start, tmp_path, way, wait
):
    script = tmp_path / "train.py"
    script.write_text(WAITS.format(wait=wait))
    recorded = [TORCHRUN, "--standalone", "--nproc-per-node", 3, "-m", "ddpquiz.record", "--to", tmp_path / "record"]
    command = recorded if way == "record" else [sys.executable, "-m", "ddpquiz", "run", "--plain", "--nproc", 3]
    told = [f"ranks 0 and 2: `{wait}` at train.py:9", "rank 1: in the script at train.py:7"]
    pid = start(*command, script, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
    found = until(lambda: judge(pid)[1], lambda found: found.fault == "late" and [*map(str, found.positions)] == told)
    assert found.culprits == (1,)


def test_the_lines_of_json_of_a_machine_are_read_by_diagnose(hanging, tmp_path):
    command = [sys.executable, "-m", "ddpquiz"]
    ran = subprocess.run([*command, "where", str(hanging), "--json"], capture_output=True, text=True, timeout=60)
    (job,) = map(json.loads, ran.stdout.splitlines())
    assert (job["ranks"], {each["gpu"] for each in job["processes"]}) == (4, {False})
    node = tmp_path / "node0.json"
    node.write_text(ran.stdout)
    ran = subprocess.run([*command, "diagnose", str(node), "--json"], capture_output=True, text=True, timeout=60)
    found = json.loads(ran.stdout)
    assert (found["fault"], found["culprits"], found["ranks"], found["present"]) == ("late", [2], 4, [0, 1, 2, 3])
    ran = subprocess.run([*command, "where", str(hanging)], capture_output=True, text=True, timeout=60)
    assert re.search(r"^rank 2, process \d+\n  main thread\n +train.py:14 +load_batch", ran.stdout, re.MULTILINE)


SLEEPS = "import time; time.sleep(1000)"


def ranks_of(name):
    """The ranks of all jobs on this machine whose name ends so."""
    return {job.name: [each.rank for each in job.processes] for job in find_jobs() if job.name.endswith(name)}


def test_jobs_without_torchrun_are_told_apart_by_their_port_and_by_the_step_of_slurm(start):
    mine = str(os.getpid())
    for port in ("101", "102"):
        for rank in ("0", "1"):
            start(sys.executable, "-c", SLEEPS, RANK=rank, WORLD_SIZE="2", MASTER_ADDR=f"here-{mine}", MASTER_PORT=port)
    for task in ("0", "1"):  # srun starts a shell for each task, which starts Python
        start("sh", "-c", f"{sys.executable} -c '{SLEEPS}'; true", SLURM_PROCID=task, SLURM_NTASKS="2", MASTER_ADDR="",
              MASTER_PORT="", SLURM_JOB_ID="", SLURM_STEP_ID=f"step-{mine}")  # fmt: skip
    wanted = {f"here-{mine} 101": [0, 1], f"here-{mine} 102": [0, 1], f"step-{mine}": [0, 1]}
    until(lambda: {name: ranks for end in wanted for name, ranks in ranks_of(end).items()}, wanted.__eq__)


def test_torchrun_in_a_task_of_slurm_is_not_a_rank_but_its_ranks_are(start, tmp_path):
    script = tmp_path / "sleeps.py"
    script.write_text(SLEEPS)
    pid = start(TORCHRUN, "--standalone", "--nproc-per-node", 2, script, SLURM_PROCID="0", SLURM_NTASKS="1")
    found = until(lambda: ranks_below(pid), lambda found: len(found) == 2)
    assert sorted(found.values()) == [0, 1]
    assert pid not in found


def test_without_py_spy_it_says_how_to_install_it(start, monkeypatch, tmp_path):
    pid = start(sys.executable, "-c", SLEEPS, RANK="0", WORLD_SIZE="2")
    until(lambda: ranks_below(pid), lambda found: pid in found)
    monkeypatch.setattr(process_stacks.sysconfig, "get_path", lambda _: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="did not start are read by py-spy: `pip install py-spy`"):
        find_jobs(pid)


CANNOT_BE_TRACED = f"import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); print(flush=True); {SLEEPS}"


@pytest.mark.skipif(not Path("/usr/bin/setpriv").exists(), reason="needs setpriv, to give up a right")
def test_where_the_system_refuses_py_spy_it_says_how_to_allow_it():
    process = subprocess.Popen([sys.executable, "-c", CANNOT_BE_TRACED], stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        lesser = ["setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace"] if os.getuid() == 0 else []
        ran = subprocess.run(
            [*lesser, sys.executable, "-m", "ddpquiz", "where", str(process.pid)],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    finally:
        process.kill()
        process.wait()
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "sudo sysctl kernel.yama.ptrace_scope=0" in ran.stderr or "belongs to another user" in ran.stderr


def test_where_no_ranks_run_it_says_what_it_looked_for(start):
    pid = start(sys.executable, "-c", SLEEPS)
    with pytest.raises(UserError, match=rf"No ranks of yours run below process {pid}: no process has RANK"):
        find_jobs(pid)
