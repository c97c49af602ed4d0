"""Runs of real ranks: what they say, how they fail, and that nothing is left of them."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from ddpquiz.errors import UserError
from ddpquiz.ranks import launch
from ddpquiz.ranks.events import Began, Claimed, End, Ended, Exited, Hung, Issued, Note, Output, Raised, Result
from ddpquiz.ranks.launch import Request
from ddpquiz.ranks.run import Run

LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"
HEAD = """\
import os, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
x = torch.ones(2) * (rank + 1)
"""


@pytest.fixture
def script(tmp_path):
    def write(body, head=HEAD):
        path = tmp_path / "script.py"
        path.write_text(head + textwrap.dedent(body))
        return path

    return write


def run(path, ranks=2, **request):
    return list(Run(Request(path, ranks=ranks, device="cpu", **{"timeout": 10.0} | request)).events())


def of(events, kind):
    return [event for event in events if isinstance(event, kind)]


def end(events):
    assert isinstance(events[-1], End)
    return events[-1]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_each_rank_says_what_it_holds_and_the_run_ends_well(script, ranks):
    events = run(script('dist.all_reduce(x)\nprint(f"sum: {x[0].item()}")\nprint("INFO: a log line")'), ranks)
    said = {(event.rank, event.label, event.value) for event in of(events, Output) if event.label}
    assert said == {(rank, "sum", str(float(ranks * (ranks + 1) / 2))) for rank in range(ranks)}
    assert [event.text for event in of(events, Output) if not event.label] == ["INFO: a log line"] * ranks
    assert isinstance(events[0], Began)
    assert end(events).ok


def test_ranks_find_in_their_environment_what_torchrun_would_set(script):
    names = [
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "GROUP_RANK",
        "MASTER_ADDR",
        "OMP_NUM_THREADS",
        "GLOO_SOCKET_IFNAME",
    ]
    events = run(
        script(f"print('env:', *[os.environ[name] for name in {names}])\nprint('argv:', sys.argv[1:])"),
        args=("--a", "b"),
    )
    said = {event.rank: event.value for event in of(events, Output) if event.label == "env"}
    assert said == {rank: f"{rank} {rank} 2 2 0 127.0.0.1 1 {LOOPBACK}" for rank in (0, 1)}
    assert {event.value for event in of(events, Output) if event.label == "argv"} == {"['--a', 'b']"}


def test_ranks_do_not_share_a_random_state(script):
    events = run(script("print('random:', torch.rand(1).item())"))
    assert len({event.value for event in of(events, Output)}) == 2


def test_a_claim_that_holds_is_told_once_by_each_rank(script):
    events = run(script('for _ in range(3):\n    assert rank >= 0, "ranks count from 0"\nassert rank < 9\n'))
    assert [claim.text for claim in events[0].claims] == ["ranks count from 0"]
    assert sorted((event.rank, event.held) for event in of(events, Claimed)) == [(0, True), (1, True)]
    assert (end(events).proven, end(events).claims) == (1, 1)


def test_a_broken_claim_ends_the_run_with_its_line(script):
    path = script('dist.barrier()\nassert rank == 0, "everybody is rank 0"\ndist.barrier()\n')
    events = run(path)
    assert (end(events).ok, end(events).rank, end(events).proven) == (False, 1, 0)
    assert end(events).why == "Rank 1 raised AssertionError: everybody is rank 0"
    trace = next(event.traceback for event in of(events, Raised) if event.rank == 1)
    assert trace.startswith("Traceback (most recent call last):\n")
    assert f'File "{path}", line 6, in <module>' in trace
    assert "worker.py" not in trace


def test_a_broken_claim_that_the_script_catches_is_still_broken(script):
    events = run(script('try:\n    assert rank == 0, "all are rank 0"\nexcept AssertionError:\n    pass\n'))
    assert (end(events).ok, end(events).why) == (False, "A claim is broken.")


FAILURES = {
    "raise ValueError('bad')": "Rank 1 raised ValueError: bad",
    "sys.exit(3)": "Rank 1 exited with status 3.",
    "sys.exit('needs 5 ranks')": "needs 5 ranks",
    "os.kill(os.getpid(), 9)": "Rank 1 was killed by SIGKILL; the kernel does that when memory runs out.",
    "os.kill(os.getpid(), 11)": "Rank 1 was ended by SIGSEGV.",
    "sys.exit(0)": "Rank 1 had ended (exit status 0) while rank {} waits for it in all_reduce, script.py:8.",
}


@pytest.mark.parametrize("fault", FAILURES)
def test_the_rank_that_failed_first_is_named_not_those_that_waited_for_it(script, fault):
    events = run(script(f"dist.all_reduce(x)\nif rank == 1:\n    {fault}\ndist.all_reduce(x)\n"), ranks=3)
    assert not end(events).ok
    assert end(events).rank == 1
    assert end(events).why in {FAILURES[fault].format(rank) for rank in (0, 2)}
    assert len(of(events, Exited)) == 3


def test_a_hang_says_who_waits_in_what_and_where_everybody_stands(script):
    path = script("if rank == 1:\n    time.sleep(60)\ndist.all_reduce(x)\n")
    began = time.monotonic()
    events = run(path, ranks=3, timeout=1.0)
    assert time.monotonic() - began < 30
    hung = of(events, Hung)[0]
    assert [(each.waits_in, each.line) for each in hung.ranks] == [("all_reduce", 7), ("", 6), ("all_reduce", 7)]
    assert end(events).why.endswith("ranks 0, 2 wait in a communication that cannot end.")


def test_a_rank_that_never_joins_is_a_hang_in_init_process_group(script):
    path = script(
        "if os.environ['RANK'] == '1': time.sleep(60)\ndist.init_process_group('gloo')",
        "import os, time, torch.distributed as dist\n",
    )
    hung = of(run(path, timeout=1.0), Hung)[0]
    assert [each.waits_in for each in hung.ranks] == ["init_process_group", ""]


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


def test_a_long_computation_is_no_hang(script):
    path = script(
        "if rank == 1:\n    until = time.monotonic() + 2.5\n    while time.monotonic() < until: pass\ndist.all_reduce(x)\n"
    )
    assert end(run(path, timeout=1.0)).ok


def test_waiting_without_communication_is_no_hang(script):
    assert end(run(script("time.sleep(2)"), timeout=0.5)).ok


def test_collectives_are_seen_with_their_values_and_their_line(script):
    events = run(script("dist.all_reduce(x)\ndist.broadcast(x, src=1)\n"))
    issued = [event for event in of(events, Issued) if event.rank == 0]
    assert [(e.op, e.line, e.shapes, e.dtype, e.bytes, e.members, e.peer) for e in issued] == [
        ("all_reduce", 5, ((2,),), "float32", 8, (0, 1), None),
        ("broadcast", 6, ((2,),), "float32", 8, (0, 1), 1),
    ]
    assert issued[0].before == ("[1.0, 1.0]",)
    assert [event.after for event in of(events, Result) if event.rank == 0] == [("[3.0, 3.0]",)] * 2
    assert len([event for event in of(events, Ended) if event.rank == 0]) == 2


def test_the_all_reduces_of_the_ddp_reducer_are_seen(script):
    body = """
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    for _ in range(2):
        model(torch.ones(2, 4)).sum().backward()
    dist.destroy_process_group()
    """
    events = run(script(body))
    assert end(events).ok
    ops = [(event.op, event.bytes) for event in of(events, Issued) if event.rank == 0]
    assert ops.count(("all_reduce", 20)) == 2  # 5 numbers of 4 bytes, once a step


def test_watching_does_not_change_a_single_bit(script):
    body = """
    torch.manual_seed(rank)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 3))
    for _ in range(5):
        loss = model(torch.randn(4, 8)).square().mean()
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad
                p.grad = None
    print("weights:", *[v.hex() for v in model.module.weight.flatten().tolist()])
    """
    path = script(body)
    watched = {event.rank: event.value for event in of(run(path), Output) if event.label == "weights"}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    env = os.environ | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    path.write_text(path.read_text() + "\nsys.stdout.flush(); os._exit(0)\n")  # see worker.leave
    alone = [
        subprocess.Popen([sys.executable, path], env=env | {"RANK": str(r)}, stdout=subprocess.PIPE, text=True)
        for r in (0, 1)
    ]
    unwatched = {
        rank: process.communicate(timeout=120)[0].removeprefix("weights:").strip() for rank, process in enumerate(alone)
    }
    assert watched == unwatched


def test_a_script_that_names_its_own_address_and_port_still_runs_on_our_store(script):
    head = (
        "import os, torch, torch.distributed as dist\nr, w = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])\n"
    )
    body = """
    for port in (29876, 29877):
        dist.init_process_group("gloo", init_method=f"tcp://localhost:{port}", rank=r, world_size=w)
        x = torch.ones(1)
        dist.all_reduce(x)
        print("sum:", x.item())
        dist.destroy_process_group()
    """
    events = run(script(body, head))
    assert [event.value for event in of(events, Output)] == ["2.0"] * 4
    assert end(events).ok


def test_gloo_takes_the_place_of_nccl_on_cpu_and_says_so(script):
    events = run(script("print('backend:', dist.get_backend())", HEAD.replace('"gloo"', '"nccl"')))
    assert {event.value for event in of(events, Output)} == {"gloo"}
    assert {event.text for event in of(events, Note)} == {"The script asks for nccl; Gloo takes its place on CPU."}


def test_annotations_of_the_script_are_its_own(script):
    events = run(script("def f(x: int): pass\nprint('annotation:', f.__annotations__['x'] is int)"), ranks=1)
    assert [event.value for event in of(events, Output)] == ["True"]


def test_standard_streams_atexit_and_threads_end_as_python_ends_them(script):
    body = """
    import atexit, threading
    atexit.register(lambda: print("atexit"))
    threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
    print("error", file=sys.stderr)
    print("no newline", end="")
    """
    events = run(script(body), ranks=1)
    assert [(event.stream, event.text) for event in of(events, Output)] == [
        ("stderr", "error"),
        ("stdout", "no newlinethread"),
        ("stdout", "atexit"),
    ]


def processes_of(marker):
    found = subprocess.run(["pgrep", "-f", marker], capture_output=True, text=True, check=False)
    return found.stdout.split()


def test_grandchildren_go_with_the_run_also_those_in_sessions_of_their_own(script):
    marker = f"{1000 + os.getpid()}.25"
    body = f"import subprocess\nsubprocess.Popen(['sleep', '{marker}'], start_new_session=True)\nsubprocess.Popen(['sleep', '{marker}'])\n"
    assert end(run(script(body))).ok
    assert processes_of(f"sleep {marker}") == []


def test_stopped_ranks_go_too(script):
    events = run(script("if rank == 1: os.kill(os.getpid(), 19)\ndist.all_reduce(x)"), timeout=1.0)
    assert of(events, Hung)[0].ranks[1].stack == ""
    assert sorted(event.rank for event in of(events, Exited)) == [0, 1]


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_when_the_launcher_goes(script, number):
    path = script("print('pid:', os.getpid())\ntime.sleep(60)\n")
    launcher = subprocess.Popen(
        [sys.executable, "-m", "ddpquiz", "run", path, "--nproc", "2", "--plain"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    pids = []
    while len(pids) < 2:
        line = launcher.stdout.readline()
        assert line, "the run ended early"
        pids += [int(line.split()[-1])] if "pid:" in line else []
    launcher.send_signal(number)
    status = launcher.wait(10)
    assert status == (130 if number == signal.SIGINT else -number)
    end_by = time.monotonic() + 5
    while not all(gone(pid) for pid in pids) and time.monotonic() < end_by:
        time.sleep(0.02)
    assert all(gone(pid) for pid in pids)


def listening(pids):
    """Return the addresses, as the kernel writes them, on which these processes listen."""
    sockets = set()
    for pid in pids:
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            sockets.add(str(fd.readlink()))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                found.add(fields[1].split(":")[0])
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_only_loopback_is_listened_on_by_ranks_store_and_server(script):
    running = Run(Request(script("dist.all_reduce(x)\nprint('ready: yes')\ntime.sleep(60)"), ranks=2, device="cpu"))
    ready = set()
    while len(ready) < 2:
        assert not running.over
        ready |= {event.rank for event in running.read(0.1) if isinstance(event, Output)}
    serving = launch.server()
    assert len(serving.pids) == 3  # two ranks and the store
    found = listening([serving.process.pid, *serving.pids])
    running.stop("seen enough")
    while not running.over:
        running.read(0.1)
    assert found == {"0100007F"}  # 127.0.0.1


MENDABLE = {
    "missing.py": "There is no script {}.",
    "folder": "{} is a folder; name the script in it that is to run.",
    "broken.py": "{}:1: invalid syntax; Python cannot read this script.",
}


@pytest.mark.parametrize("name", MENDABLE)
def test_what_cannot_be_run_is_refused_with_a_sentence(tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "broken.py").write_text("def def\n")
    path = tmp_path / name
    with pytest.raises(UserError) as refused:
        Run(Request(path, ranks=1))
    assert str(refused.value) == MENDABLE[name].format(path)


def test_too_many_ranks_are_refused(script):
    with pytest.raises(UserError, match="--nproc is 65, but one machine runs 1 to 64 ranks"):
        Run(Request(script("pass"), ranks=65))


def test_a_server_that_died_is_replaced(script):
    assert end(run(script("pass"))).ok
    launch.server().process.kill()
    launch.server().process.wait()
    assert end(run(script("pass"))).ok
