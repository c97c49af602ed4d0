"""Recording a job that another launcher starts: what is in the files, and that the job does not notice."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import passed
import pytest
from inline_snapshot import snapshot
from real_run import ALONE

from ddpquiz.events.event import (
    Alive,
    Began,
    CalledByThread,
    CalledInHandler,
    Ended,
    Exited,
    Forming,
    GatheredGradient,
    Issued,
    Joining,
    MemoryPeak,
    Raised,
    Recorded,
    ReplicaSample,
    Started,
)
from ddpquiz.jobs.rank_files import read_rank_files

pytestmark = passed.ENGINE

TORCHRUN = Path(sys.executable).with_name("torchrun")
RECORD = ("-m", "ddpquiz.record", "--to", "rec")


@pytest.fixture
def start(tmp_path):
    def start(*command, **variables):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **variables}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)

    return start


def write(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(textwrap.dedent(text))


def of(record, kind, rank):
    return [event for event in record.events if isinstance(event, kind) and event.rank == rank]


def of_all(record, kind):
    return [event for event in record.events if isinstance(event, kind)]


RESTARTED = """\
import os, sys, time, signal, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    model(torch.ones(4, 2)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    dist.barrier()
    if rank == 1:
        time.sleep(1.5)
        os.kill(os.getpid(), signal.SIGKILL)
dist.send(torch.ones(1), 0) if rank else dist.recv(torch.ones(1), 1)
os.write(1, f"done {rank} {sys.argv[1:]}\\n".encode())  # in one piece: both ranks share a pipe
del model
dist.destroy_process_group()
"""


def test_ranks_that_torchrun_restarts_after_kill_9_are_recorded_up_to_the_kill_and_in_the_same_files(start, tmp_path):
    write(tmp_path / "train.py", RESTARTED)
    options = ("--nproc-per-node", "2", "--max-restarts", "1", "--standalone")
    own_store = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}  # else a restart meets keys of the first try
    done = start(TORCHRUN, *options, *RECORD, "train.py", "--lr", "1e-3", **own_store)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["done 0 ['--lr', '1e-3']", "done 1 ['--lr', '1e-3']"]

    record = read_rank_files(tmp_path / "rec")
    assert (record.ranks, record.present, record.missing, record.clock_error, record.notes) == (2, (0, 1), (), 0.0, ())
    (began,) = [event for event in record.events if isinstance(event, Began)]
    assert record.events[0] is began
    assert (began.args, began.ranks, began.device, began.backend) == (("--lr", "1e-3"), 2, "cpu", "gloo")
    assert began.script == str(tmp_path / "train.py")
    for rank in (0, 1):
        assert [event.restart for event in of(record, Started, rank)] == [0, 1]
        assert [event.done for event in of(record, Joining, rank)] == [False, True] * 2
        assert [event.status for event in of(record, Exited, rank)][-1] == 0
    calls = [event.operation for event in of(record, Issued, 1)]
    lines = RESTARTED.splitlines()
    assert ("barrier", 12) in [(call.op, call.line) for call in calls]  # 1.5 s before the kill
    assert {lines[call.line - 1].strip() for call in calls if call.bucket is not None} == {
        "model(torch.ones(4, 2)).sum().backward()"
    }
    assert (calls[-1].op, calls[-1].peer, lines[calls[-1].line - 1][:9]) == ("send", 0, "dist.send")
    alive = {(event.file, event.line) for event in of(record, Alive, 1)}
    assert (began.script, 14) in alive  # while it sleeps


SAME = """\
import random, sys, threading
sys.stdout.write(f"{sys.argv} {sys.path[0]} {__file__} {__name__} {__spec__ and __spec__.name} {__package__}\\n")
print(sorted(globals()), sys.modules["__main__"].__dict__ is globals(), [thread.name for thread in threading.enumerate()], "torch" in sys.modules)
"""
WITH_TORCH = """
import torch, torch.distributed as dist
torch.manual_seed(1)
dist.init_process_group("gloo")
x = torch.rand(3)
dist.all_reduce(x)
print(x.tolist(), torch.rand(1).item(), random.getstate()[1][0] > 0, type(dist.group.WORLD), [thread.name for thread in threading.enumerate()])
dist.destroy_process_group()
"""
SAME_SCRIPTS = {
    "a result": WITH_TORCH,
    "an exception": "\ndef fail():\n    raise ValueError('planted')\nfail()\n",
    "a status": "\nsys.exit(3)\n",
    "a text as status": "\nsys.exit('a sentence')\n",
    "an interrupt": "\nraise KeyboardInterrupt\n",
}


@pytest.mark.parametrize("end", SAME_SCRIPTS)
def test_a_script_prints_and_exits_the_same_when_it_is_recorded(end, start, tmp_path):
    write(tmp_path / "sub" / "train.py", SAME + SAME_SCRIPTS[end])
    write(tmp_path / "sub" / "__init__.py", "")
    for command in (["sub/train.py", "-x", "1"], ["-m", "sub.train", "-x", "1"]):
        plain, recorded = (
            start(sys.executable, *before, *command, **ALONE, TORCH_CPP_LOG_LEVEL="ERROR") for before in ((), RECORD)
        )
        assert recorded.stdout == plain.stdout
        assert recorded.stderr == plain.stderr
        assert recorded.returncode == plain.returncode


@pytest.mark.parametrize(
    ("raises", "error", "message"),
    [
        ("raise Broken", "Broken", "broken row 5"),
        ("list(zip(in_c, [], strict=True))", "ValueError", "zip() argument 2 is shorter than argument 1"),
    ],
)
def test_an_exception_is_recorded_though_a_handler_raises_meanwhile(start, tmp_path, raises, error, message):
    """As torch's handler of SIGCHLD does, wherever the main thread is, once a worker of a DataLoader has died.

    The handler is the script's again when its own functions run at the exit.
    """
    write(
        tmp_path / "train.py",
        f"""
        import atexit, ctypes, os, signal
        def handler(*_): raise RuntimeError("DataLoader worker (pid 17) is killed by signal: Killed. ")
        signal.signal(signal.SIGCHLD, handler)
        atexit.register(lambda: print("its own:", signal.getsignal(signal.SIGCHLD) is handler))
        class Broken(ValueError):
            def __str__(self):
                os.kill(os.getpid(), signal.SIGCHLD)
                return "broken row 5"
        in_c = map(ctypes.CDLL(None)["raise"], [int(signal.SIGCHLD)])
        {raises}
        """,
    )
    ended = start(sys.executable, *RECORD, "train.py", **ALONE)
    (raised,) = of_all(read_rank_files(tmp_path / "rec"), Raised)
    assert (ended.returncode, raised.error, raised.message) == (1, error, message)
    assert ended.stdout == "its own: True\n"


def test_an_exception_is_recorded_without_our_frames(start, tmp_path):
    write(tmp_path / "train.py", SAME + SAME_SCRIPTS["an exception"])
    start(sys.executable, *RECORD, "train.py", **ALONE)
    record = read_rank_files(tmp_path / "rec")
    (raised,), (left,) = of(record, Raised, 0), of(record, Exited, 0)
    assert (raised.error, raised.message, left.status) == ("ValueError", "planted", 1)
    assert "ddpquiz" not in raised.traceback


SPAWNED = """\
import sys, torch, torch.distributed as dist, torch.multiprocessing as mp
from ddpquiz import record

def work(rank, ranks):
    with record.start(to="rec", values=True):
        dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=rank, world_size=ranks)
        dist.all_reduce(torch.ones(2))
        if rank == 1:
            raise ValueError("planted")
        dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(work, (2,), nprocs=2)
"""


def test_processes_of_mp_spawn_are_recorded_by_start(start, tmp_path):
    write(tmp_path / "train.py", SPAWNED)
    start(sys.executable, "train.py", str(tmp_path / "store"))
    record = read_rank_files(tmp_path / "rec")
    assert record.present == (0, 1)
    assert [event.before for event in of(record, Issued, 0)] == [("[1.0, 1.0]",)]
    assert [event.error for event in of(record, Raised, 1)] == ["ValueError"]
    assert [event.status for event in of(record, Exited, 1)] == [1]


PROCESSES = """\
import multiprocessing, os, sys, torch, torch.distributed as dist
from ddpquiz import record

def work(rank, how):
    record.start(to=f"rec-{how}")
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}-{how}", rank=rank, world_size=2)
    dist.all_reduce(torch.ones(2))
    if os.fork() == 0:
        os._exit(7)  # what a rank starts is no rank
    if rank == 1:
        raise ValueError("planted")

if __name__ == "__main__":
    for how in ("fork", "spawn"):
        ways = multiprocessing.get_context(how)
        ranks = [ways.Process(target=work, args=(rank, how)) for rank in range(2)]
        [rank.start() for rank in ranks]
        [rank.join() for rank in ranks]
"""


def test_processes_of_multiprocessing_record_how_they_end(start, tmp_path):
    write(tmp_path / "train.py", PROCESSES)
    start(sys.executable, "train.py", str(tmp_path / "store"))
    for how in ("fork", "spawn"):
        record = read_rank_files(tmp_path / f"rec-{how}")
        assert [(event.rank, event.error) for event in of_all(record, Raised)] == [(1, "ValueError")]
        assert sorted((event.rank, event.status) for event in of_all(record, Exited)) == [(0, 0), (1, 1)]
        assert {event.rank for event in of_all(record, MemoryPeak)} == {0, 1}


DISK = """\
import os, sys, time, resource, shutil, torch, torch.distributed as dist
dist.init_process_group("gloo")
{fault}
for i in range(40):
    dist.all_reduce(torch.ones(1))
    time.sleep(0.05)
print("done")
dist.destroy_process_group()
"""
FAULTS = {
    "File too large": "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))",
    "No such file or directory": "time.sleep(0.5); shutil.rmtree('rec')",
}


@pytest.mark.parametrize("why", FAULTS)
def test_a_job_goes_on_when_the_disk_is_full_or_the_folder_is_gone(why, start, tmp_path):
    write(tmp_path / "train.py", DISK.format(fault=FAULTS[why]))
    done = start(sys.executable, *RECORD, "train.py", **ALONE)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert done.stderr == f"ddpquiz.record: rank 0 is no longer recorded: {tmp_path}/rec: {why}\n"


def test_a_folder_that_cannot_be_made_does_not_stop_the_job(start, tmp_path):
    write(tmp_path / "train.py", "print('done')")
    write(tmp_path / "rec", "a file")
    done = start(sys.executable, *RECORD, "train.py", **ALONE)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert done.stderr.count("\n") == 1


def test_a_command_line_that_does_not_fit_is_refused_with_the_usage(start):
    for command in (["train.py"], ["--to"], ["--to", "rec"], ["--to", "rec", "--last", "0", "train.py"]):
        done = start(sys.executable, "-m", "ddpquiz.record", *command)
        assert (done.returncode, done.stdout) == (1, "")
        assert "usage: python -m ddpquiz.record --to DIR" in done.stderr
    assert "usage: " in start(sys.executable, "-m", "ddpquiz.record", "--help").stdout


def test_files_of_an_earlier_job_are_renamed(start, tmp_path):
    write(tmp_path / "train.py", "")
    for _ in range(3):
        start(sys.executable, *RECORD, "train.py", **ALONE)
    names = sorted(path.name for path in (tmp_path / "rec").iterdir())
    assert names == ["rank-0.jsonl", "rank-0.jsonl.1", "rank-0.jsonl.2"]
    assert len(of(read_rank_files(tmp_path / "rec"), Recorded, 0)) == 1


KILLED = """\
import os, signal, sys, torch, torch.distributed as dist
from ddpquiz import record

for number, die in enumerate((os.abort, lambda: os._exit(3), lambda: os.kill(os.getpid(), signal.SIGKILL))):
    child = os.fork()
    if child == 0:
        record.start(f"rec{number}")
        dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}{number}", rank=0, world_size=1)
        for length in range(1, 101):
            dist.all_reduce(torch.ones(length))
            dist.new_group([0]) if length == 100 else None
        die()
    os.waitpid(child, 0)
"""


@pytest.mark.quick
def test_a_rank_that_is_aborted_or_killed_or_exits_at_once_loses_no_operation_and_no_group(start, tmp_path):
    write(tmp_path / "train.py", KILLED)
    start(sys.executable, "train.py", str(tmp_path / "store"))
    for number in range(3):
        record = read_rank_files(tmp_path / f"rec{number}")
        assert [event.operation.shapes for event in of(record, Issued, 0)] == [((n,),) for n in range(1, 101)]
        assert [event.number for event in of(record, Ended, 0)] == [*range(1, 101)]
        assert [event.done for event in of(record, Forming, 0)] == [False, True]
        assert [path.name for path in (tmp_path / f"rec{number}").iterdir()] == ["rank-0.jsonl"]
        assert [event.status for event in of(record, Exited, 0)] == [3] * (number == 1)  # what os._exit() was given


def test_what_gloo_of_an_old_torch_does_wrong_is_noted(start, tmp_path):
    write(
        tmp_path / "job.py",
        """
        import torch, torch.distributed as dist
        torch.__version__ = "2.7.1"
        from ddpquiz import record
        record.start(to="rec")
        dist.init_process_group("gloo")
        dist.reduce_scatter_tensor(torch.zeros(2), torch.ones(2), op=dist.ReduceOp.AVG)
        dist.destroy_process_group()
        """,
    )
    start(sys.executable, "job.py", **ALONE)
    assert read_rank_files(tmp_path / "rec").notes == snapshot(
        (
            "The script calls reduce_scatter_tensor with ReduceOp.AVG, and Gloo of torch 2.7.1 returns the sum instead, without an error. Use torch 2.9 or newer.",
            "The script calls destroy_process_group(). Over Gloo, torch 2.7.1 hangs there in about half of all jobs.",
        )
    )


MARKED = """\
import threading, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
rank = dist.get_rank()
x = torch.ones(2)
try:
    raise KeyError("rank")
except KeyError:
    dist.all_reduce(x)
thread = threading.Thread(target=dist.broadcast, args=(x, 0))
thread.start()
thread.join()
torch.manual_seed(rank)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(x).backward()
for parameter in model.parameters():
    dist.all_reduce(parameter.grad)
optimizer.step()
wrapped = DistributedDataParallel(torch.nn.Linear(2, 2))
features = wrapped(torch.ones(2, 2))
every = [torch.empty(2, 2) for _ in range(2)]
dist.all_gather(every, features)
torch.cat([features, *every]).sum().backward()
dist.destroy_process_group()
"""


def test_a_record_says_of_a_call_what_a_live_run_says(start, tmp_path):
    """Calls of plain tensors take another way through the recorder there (direct_calls.py)."""
    write(tmp_path / "train.py", MARKED)
    ran = start(TORCHRUN, "--standalone", "--nproc-per-node", "2", *RECORD, "train.py")
    assert ran.returncode == 0, ran.stderr
    record = read_rank_files(tmp_path / "rec")
    for rank in (0, 1):
        (handled,) = of(record, CalledInHandler, rank)
        assert (handled.line, handled.error) == (7, "KeyError")
        (threaded,) = of(record, CalledByThread, rank)
        assert threaded.op == "broadcast"
        (gathered,) = of(record, GatheredGradient, rank)
        assert (gathered.line, gathered.op) == (23, "all_gather")
    assert len({of(record, ReplicaSample, rank)[0].checksum for rank in (0, 1)}) == 2
