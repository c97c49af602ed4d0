"""The stacks of a rank that runs: those of all its threads and children, and a sentence for other processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import passed
import pytest

from ddpquiz.errors import UserError
from ddpquiz.events.event import Issued, Output
from ddpquiz.ranks import process_stacks
from ddpquiz.ranks.forks import STACK_SIGNAL, THREADS_SIGNAL
from ddpquiz.ranks.inside import main_thread
from ddpquiz.ranks.process_stacks import stacks_of
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run

SCRIPT = """
import os, subprocess, sys, threading, time
has_printed = threading.Event()
def in_background():
    print("background: ready")
    has_printed.set()  # a child that is forked during a print may inherit the lock of the stream
    time.sleep(1000)
def in_a_child():
    print("child: ready")
    os.write(printed[1], b"x")
    time.sleep(1000)
def in_the_script():
    os.read(printed[0], 1)  # two processes that print at once may mix their lines
    print("main: ready"); time.sleep(1000)
printed = os.pipe()
threading.Thread(target=in_background, daemon=True).start()
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
has_printed.wait()
if os.fork() == 0:
    in_a_child()
in_the_script()
"""

pytestmark = [passed.COMMANDS, pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")]


def names(threads, file="script.py"):
    """Name the functions of a script in which threads are; above them, `print` may still be at work."""
    return [[frame.name for frame in frames if frame.file.endswith(file)] for frames in threads]


@pytest.fixture
def rank(tmp_path):
    """Return the process of a rank that sleeps, and whose child does."""
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    run = Run(Request(path, ranks=1, device="cpu"))
    ready = set()
    for event in run.events():
        if isinstance(event, Output) and event.value == "ready":
            ready.add(event.label)
        if ready == {"main", "child", "background"}:
            break
    yield run.seen.pids[0]
    run.stop("enough")
    list(run.events())


def test_a_rank_shows_its_threads_and_its_children(rank):
    found = stacks_of(rank)
    assert (found[0].pid, found[0].rank) == (rank, 0)
    assert names(found[0].threads) == [["in_the_script", "<module>"], ["in_background"]]
    forked, started = sorted(found[1:], key=lambda each: each.rank is None)
    assert names(forked.threads) == [["in_a_child", "<module>"]]
    assert names(started.threads, "<string>") == [["<module>"]]  # read by py-spy


WAITS = """
import threading, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
def in_recv():
    dist.recv(torch.ones(1), src=1)
def in_a_claim(value):
    assert value.sleeps(), "it sleeps"
class Sleeper:
    def __bool__(self):
        print("main: ready")
        time.sleep(1000)
    def sleeps(self):
        return self
if dist.get_rank() == 0:
    threading.Thread(target=in_recv, daemon=True).start()
    in_a_claim(Sleeper())
dist.barrier()
"""


def test_a_thread_that_communicates_and_a_claim_are_shown(tmp_path):
    """Although functions of ours are on both of their stacks."""
    path = tmp_path / "waits.py"
    path.write_text(WAITS)
    run = Run(Request(path, ranks=2, device="cpu"))
    missing = {"main", "recv"}
    while missing:
        for event in run.read(0.1):
            match event:
                case Output(label="main"):
                    missing.discard("main")
                case Issued(rank=0, operation=operation):
                    missing.discard(operation.op)
    threads = stacks_of(run.seen.pids[0])[0].threads
    run.close("enough")
    assert names(threads, "waits.py") == [["__bool__", "in_a_claim", "<module>"], ["in_recv"]]


def test_a_rank_that_was_stopped_is_said_to_be_stopped(rank):
    os.kill(rank, signal.SIGSTOP)
    try:
        while "stopped" not in (found := stacks_of(rank)[0]).why:  # the kernel stops it soon
            time.sleep(0.01)
        assert found.threads == ()
    finally:
        os.kill(rank, signal.SIGCONT)


LOOKS = 1000
CALLS = """
import sys
from pathlib import Path
sys.setswitchinterval(1e-4)  # each look waits less
def called(_):
    pass
print("main: ready")
while not Path("asked").exists():
    for _ in map(called, range(100_000)):
        pass
"""


@pytest.mark.parametrize("number", [STACK_SIGNAL, THREADS_SIGNAL])
def test_a_rank_that_calls_functions_survives_each_look(tmp_path, monkeypatch, number):
    """The handler of faulthandler would read the stack while a function is being called, and crash."""
    monkeypatch.chdir(tmp_path)
    Path("script.py").write_text(CALLS)
    run = Run(Request("script.py", ranks=1, device="cpu", timeout=None))
    while not any(isinstance(event, Output) for event in run.read(0.1)):
        pass
    for _ in range(LOOKS):
        if not run.seen.exited:
            os.kill(run.seen.pids[0], number)
        run.read(0.001)
    Path("asked").touch()
    [*run.events()]
    assert run.seen.exited[0].status == 0


@pytest.mark.parametrize("fresh", [False, True])
def test_a_thread_that_has_pythons_lock_writes_the_stacks(tmp_path, monkeypatch, fresh):
    """Also where threads of libraries are older: they would run the handler of faulthandler."""
    written = []
    monkeypatch.setattr(process_stacks, "THREADS_BY_FORCE", None)
    monkeypatch.setattr(process_stacks, "_threads", lambda text: [written.append(text)])
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    path = tmp_path / "script.py"
    path.write_text("import time, torch\nprint('main: ready')\ntime.sleep(1000)\n")
    run = Run(Request(path, ranks=1, device="cpu", fresh=fresh))
    while not any(isinstance(event, Output) for event in run.read(0.1)):
        pass
    stacks_of(run.seen.pids[0])
    run.close("enough")
    source = Path(main_thread.__file__).read_text().splitlines()
    line = next(number for number, text in enumerate(source, 1) if "faulthandler.dump_traceback(" in text)
    assert f"line {line} in _answer_for_ever" in written[0]


def test_a_rank_that_holds_pythons_lock_shows_its_threads(tmp_path):
    path = tmp_path / "holds.py"
    path.write_text(
        "import ctypes, os\ndef in_c():\n    ctypes.PyDLL(None).read(os.pipe()[0], ctypes.byref(ctypes.c_char()), 1)\nprint('main: ready')\nin_c()\n"
    )
    run = Run(Request(path, ranks=1, device="cpu"))
    while not any(isinstance(event, Output) for event in run.read(0.1)):
        pass
    while not (found := names(stacks_of(run.seen.pids[0])[0].threads, "holds.py")) or "in_c" not in found[0]:
        pass  # it is still on its way
    run.close("enough")
    assert found == [["in_c", "<module>"]]


def test_the_command_draws_lines_and_functions(rank):
    ran = subprocess.run(
        [sys.executable, "-m", "ddpquiz", "where", str(rank)], capture_output=True, text=True, timeout=60
    )
    assert ran.stdout.startswith(f"rank 0, process {rank}\n  main thread\n")
    assert "script.py:14  in_the_script  print(" in ran.stdout
    assert "a child of rank 0, process " in ran.stdout


def test_py_spy_shows_a_process_that_ddpquiz_did_not_start():
    with subprocess.Popen(
        [sys.executable, "-c", "def deep(): print(flush=True); input()\ndeep()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        process.stdout.readline()
        (found,) = stacks_of(process.pid)
        process.communicate(b"\n")
    assert (found.rank, names(found.threads, "<string>")) == (None, [["deep", "<module>"]])


def test_a_process_without_python_and_one_that_is_not_there_are_named():
    with subprocess.Popen(["sleep", "1000"]) as process:
        with pytest.raises(UserError, match=rf"Process {process.pid}: "):
            stacks_of(process.pid)
        process.kill()
    with pytest.raises(UserError, match="no process 4194305"):
        stacks_of(4194305)
