"""Runs of real ranks: what they say, how they fail, and that nothing is left of them."""

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from ddpquiz.analysis.events import (
    Began,
    Claimed,
    End,
    Ended,
    Exited,
    Hung,
    Issued,
    Joining,
    Note,
    Output,
    Raised,
    Result,
)
from ddpquiz.errors import UserError
from ddpquiz.ranks import launch
from ddpquiz.ranks.event_reader import OutputOrder
from ddpquiz.ranks.messages import Preload, QueryMachine
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run
from ddpquiz.ranks.script import of_module, read

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


ENVIRONMENT = """\
import json, os, sys
for line in ('env: ' + json.dumps(dict(os.environ)), f'argv: {sys.argv[1:]}'):
    os.write(1, f'{line}\\n'.encode())  # a line at once, lest those of two ranks be mixed in torchrun's pipe
"""
ANOTHER = {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE"}  # in every run of torchrun
OF_THE_TERMINAL = {"LINES", "COLUMNS"}  # a library of torchrun's sets them
LOOPBACK_ONLY = {"GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "CUDA_VISIBLE_DEVICES"}  # ours


def test_ranks_find_in_their_environment_and_arguments_what_torchrun_gives(script, monkeypatch):
    for name in ("OMP_NUM_THREADS", *LOOPBACK_ONLY):
        monkeypatch.delenv(name, raising=False)
    path = script(ENVIRONMENT, "")
    command = [str(Path(sys.executable).with_name("torchrun")), "--nproc-per-node", "2", str(path), "--a", "b"]
    lines = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.splitlines()
    theirs = {env["RANK"]: env for env in (json.loads(line[5:]) for line in lines if line.startswith("env: "))}
    events = run(path, args=("--a", "b"))
    ours = {str(e.rank): json.loads(e.value) for e in of(events, Output) if e.label == "env"}
    assert {event.value for event in of(events, Output) if event.label == "argv"} == {"['--a', 'b']"}
    for rank in ("0", "1"):
        mine, its = ours[rank], theirs[rank]
        assert mine.keys() - LOOPBACK_ONLY == its.keys() - OF_THE_TERMINAL
        assert {name for name in mine.keys() - LOOPBACK_ONLY if mine[name] != its[name]} <= ANOTHER
    assert (ours["0"]["MASTER_ADDR"], ours["0"]["GLOO_SOCKET_IFNAME"]) == ("127.0.0.1", LOOPBACK)


def test_threads_are_those_that_the_environment_gives(script, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    events = run(script("print('threads:', torch.get_num_threads())"))
    assert [event.value for event in of(events, Output)] == ["3", "3"]


@pytest.mark.parametrize(("wanted", "threads"), [("3,2", 3), ("0", os.cpu_count()), ("all", os.cpu_count())])
def test_threads_that_openmp_understands_and_torch_does_not_are_no_fault(script, monkeypatch, wanted, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", wanted)
    events = run(script("print('threads:', torch.get_num_threads())"), ranks=1)
    assert [event.value for event in of(events, Output)] == [str(threads)]


def test_ranks_do_not_share_a_random_state(script):
    events = run(script("print('random:', torch.rand(1).item())"))
    assert len({event.value for event in of(events, Output)}) == 2


def test_ranks_do_not_share_the_random_state_of_numpy(script):
    pytest.importorskip("numpy")
    body = "import numpy, torch.optim  # for the latter the server imports what imports numpy.random\n"
    events = run(script(body + "print('random:', numpy.random.rand())"))
    assert len({event.value for event in of(events, Output)}) == 2


def test_a_claim_that_holds_is_reported_once_by_each_rank(script):
    events = run(script('for _ in range(3):\n    assert rank >= 0, "ranks count from 0"\nassert rank < 9\n'))
    assert [claim.text for claim in events[0].claims] == ["ranks count from 0"]
    assert sorted((event.rank, event.held) for event in of(events, Claimed)) == [(0, True), (1, True)]
    assert (end(events).proven, end(events).claims) == (1, 1)


def test_a_broken_claim_ends_the_run_with_its_line(script):
    path = script('dist.barrier()\nassert rank == 0, "everybody is rank 0"\ndist.barrier()\n')
    events = run(path)
    assert (end(events).ok, end(events).rank, end(events).proven) == (False, 1, 0)
    assert end(events).why == "Rank 1 raised AssertionError at script.py:6: everybody is rank 0"
    trace = next(event.traceback for event in of(events, Raised) if event.rank == 1)
    assert trace.startswith("Traceback (most recent call last):\n")
    assert f'File "{path}", line 6, in <module>' in trace
    assert "worker.py" not in trace


def test_a_broken_claim_that_the_script_catches_is_still_broken(script):
    events = run(script('try:\n    assert rank == 0, "all are rank 0"\nexcept AssertionError:\n    pass\n'))
    assert (end(events).ok, end(events).why) == (False, "A claim is broken.")


@pytest.mark.parametrize("fault", ["raise ValueError('bad')", "os.kill(os.getpid(), 9)", "os._exit(0)"])
def test_the_rank_that_failed_first_is_named_not_those_that_waited_for_it(script, fault):
    events = run(script(f"dist.all_reduce(x)\nif rank == 1:\n    {fault}\ndist.all_reduce(x)\n"), ranks=3)
    assert not end(events).ok
    assert end(events).rank == 1
    assert len(of(events, Exited)) == 3


def test_a_hang_says_who_waits_in_what_and_where_everybody_stands(script):
    path = script("if rank == 1:\n    time.sleep(600)\ndist.all_reduce(x)\n")
    began = time.monotonic()
    events = run(path, ranks=3, timeout=1.0)
    assert time.monotonic() - began < 300  # it may have to load torch first
    hung = of(events, Hung)[0]
    assert [(each.waits_in, each.line) for each in hung.ranks] == [("all_reduce", 7), ("", 6), ("all_reduce", 7)]
    assert end(events).why.endswith("ranks 0 and 2 wait in all_reduce for rank 1, which is at script.py:6.")


def test_lines_and_operations_come_in_their_order_however_late_they_are_read(script):
    body = """
    dist.barrier()
    for number in range(5):
        print("line:", number)
        dist.all_reduce(torch.ones(1))
        sys.stdout.write("half ")
        os.write(2, b"not told\\n")
        print("a line", file=sys.stderr)
        print("line")
    """
    going = Run(Request(script(body), ranks=2, device="cpu", timeout=10.0))
    events = []
    while not going.over:
        events += going.read(0.1)
        time.sleep(0.3)
    for rank in (0, 1):
        own = [event for event in events if isinstance(event, Issued | Output) and event.rank == rank]
        own = [event for event in own if not (isinstance(event, Output) and event.stream == "stderr")]
        order = [event.operation.op if isinstance(event, Issued) else event.text for event in own]
        assert order[1:] == [each for number in range(5) for each in (f"line: {number}", "all_reduce", "half line")]
        assert [event.time for event in own] == sorted(event.time for event in own)
    assert len([event for event in of(events, Output) if event.stream == "stderr"]) == 20


def test_lines_and_operations_come_in_their_order_however_fast_they_come(script):
    body = """
    for number in range(1500):
        print("line:", number)
        if number % 3 == 0:
            dist.all_reduce(x)
    """
    events = run(script(body))
    wanted = [each for number in range(1500) for each in (str(number), *["all_reduce"] * (number % 3 == 0))]
    for rank in (0, 1):
        own = [event for event in events if isinstance(event, Issued | Output) and event.rank == rank]
        assert [event.operation.op if isinstance(event, Issued) else event.value for event in own] == wanted
        assert [event.time for event in own] == sorted(event.time for event in own)


def test_lines_without_a_report_come_after_those_with_one_and_do_not_hold_them_back():
    order = OutputOrder()
    order.add_data(b"untold\nhello\n", 1.0)
    assert list(order.lines(0.0)) == []
    order.add_report(0.9, 6)
    assert list(order.lines(0.5)) == []  # which of them is meant?
    assert list(order.lines(1.1)) == [(b"untold", 1.0), (b"hello", 0.9)]
    order.add_data(b"a\nb\n", 2.0)  # of what takes long to write
    assert list(order.lines(3.0)) == [(b"a", 2.0), (b"b", 2.0)]
    order.add_data(b"c\nend\n", 4.0)
    order.add_report(1.9, 6)
    assert list(order.lines(0.0)) == [(b"c", 1.9)]
    order.add_report(4.5, 4)
    assert list(order.lines(0.0)) == [(b"end", 4.5)]


SLOW_TO_JOIN = """\
original = c10d._new_process_group_helper

def join(*args, **kwargs):
    joined = original(*args, **kwargs)
    if os.environ["RANK"] == "1":
        time.sleep(0.5)
    print(f"joined: {time.monotonic()}")
    return joined

c10d._new_process_group_helper = join
for _ in range(2):
    dist.init_process_group("gloo")
    print(f"came back: {time.monotonic()}")
    dist.destroy_process_group()
"""


def test_no_rank_leaves_init_process_group_before_all_are_in(script):
    """One that ends at once would break a connection that a slower one is still making."""
    head = "import os, time\nimport torch.distributed as dist\nfrom torch.distributed import distributed_c10d as c10d\n"
    events = run(script(SLOW_TO_JOIN, head=head))
    assert end(events).ok
    joined, back = (
        sorted(float(each.value) for each in of(events, Output) if each.label == label)
        for label in ("joined", "came back")
    )
    assert joined[:2] < back[:2] < joined[2:] < back[2:]
    assert joined[1] <= back[0]
    assert joined[3] <= back[2]


def test_a_rank_may_form_a_group_with_processes_that_it_starts_itself(script):
    body = """
    path = sys.argv[1]
    code = (
        "import torch.distributed as dist; "
        f"dist.init_process_group('gloo', init_method='file://{path}', rank=1, world_size=2); dist.barrier()"
    )
    other = subprocess.Popen([sys.executable, "-c", code])
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=0, world_size=2)
    dist.barrier()
    print("together: yes")
    other.wait()
    """
    path = script(body, head="import os, subprocess, sys, torch.distributed as dist\n")
    events = run(path, ranks=1, args=(str(path.with_name("store")),))
    assert end(events).ok, end(events).why
    assert [each.label for each in of(events, Output)] == ["together"]


def test_a_rank_that_never_joins_is_a_hang_in_init_process_group(script):
    path = script(
        "if os.environ['RANK'] == '1': time.sleep(60)\ndist.init_process_group('gloo')",
        "import os, time, torch.distributed as dist\n",
    )
    hung = of(run(path, timeout=1.0), Hung)[0]
    assert [each.waits_in for each in hung.ranks] == ["init_process_group", ""]


def test_a_group_that_another_file_forms_is_formed_in_no_line_of_the_script(script, tmp_path):
    (tmp_path / "helper.py").write_text(
        f"def form():\n    {HEAD.splitlines()[0]}\n    dist.init_process_group('gloo')\n"
    )
    events = run(script("import helper, torch.distributed as dist\nhelper.form()\n", ""))
    assert {event.line for event in of(events, Joining)} == {0}
    assert {event.line for event in of(run(script("", HEAD)), Joining)} == {2}


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


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the processor time of a rank's children is not counted")
def test_a_long_computation_of_a_child_is_no_hang(script):
    """Of a DataLoader's worker, say."""
    body = """
    import subprocess, sys
    if rank == 1:
        code = "import time\\nuntil = time.monotonic() + 2.5\\nwhile time.monotonic() < until: pass"
        subprocess.run([sys.executable, "-c", code])
    dist.all_reduce(x)
    """
    assert end(run(script(body), timeout=1.0)).ok


def test_waiting_without_communication_is_no_hang(script):
    assert end(run(script("time.sleep(2)"), timeout=0.5)).ok


def test_collectives_are_seen_with_their_values_and_their_line(script):
    events = run(script("dist.all_reduce(x)\ndist.broadcast(x, src=1)\n"))
    issued = [event for event in of(events, Issued) if event.rank == 0]
    assert [
        (e.op, e.line, e.shapes, e.dtype, e.bytes, e.members, e.peer) for e in (each.operation for each in issued)
    ] == [
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
    ops = [(event.operation.op, event.operation.bytes) for event in of(events, Issued) if event.rank == 0]
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
    meet = f'"gloo", init_method="file://{path}.store", rank=int(sys.argv[1]), world_size=2'  # not at a port
    path.write_text(
        path.read_text().replace('"gloo"', meet) + "\nsys.stdout.flush(); os._exit(0)\n"
    )  # see leaving.leave
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    alone = [
        subprocess.Popen([sys.executable, path, rank], env=env, stdout=subprocess.PIPE, text=True) for rank in "01"
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


@pytest.mark.parametrize("silence", ["sys.stdout = None", "sys.stdout.close()", "del sys.stdout"])
def test_a_rank_that_silences_itself_ends_well(script, silence):
    events = run(script(f"print('said')\nif rank:\n    {silence}"))
    assert [event.text for event in of(events, Output)] == ["said", "said"]
    assert end(events).ok


def test_what_is_written_to_the_streams_that_python_began_with_comes_line_by_line(script, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    launch.close()  # its server is to start without it
    body = """
    import io
    sys.stdout = io.StringIO()
    sys.__stdout__.write("line\\n")
    time.sleep(0.5)
    sys.__stdout__.write("no newline")
    """
    first, second = of(run(script(body, "import sys, time"), ranks=1), Output)
    assert (first.text, second.text) == ("line", "no newline")
    assert second.time - first.time > 0.4


LAUNCHERS = """\
import os

class Env:  # what Lightning's TorchElasticEnvironment and Accelerate's PartialState look at
    detected = {"RANK", "GROUP_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"} <= set(os.environ) and bool(
        {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"} & set(os.environ))
    main_address, main_port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    world, rank, local = (int(os.environ[name]) for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"))

import torch.distributed as dist
dist.init_process_group("gloo", init_method="env://", rank=Env.rank, world_size=Env.world)
print("launched:", Env.detected, Env.local, dist.get_world_size())
dist.destroy_process_group()
"""


def test_launchers_that_look_for_torchrun_find_it(script):
    events = run(script(LAUNCHERS, ""))
    launched = [event.value for event in of(events, Output) if event.label == "launched"]
    assert sorted(launched) == ["True 0 2", "True 1 2"]


RECORDED = """\
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    raise ValueError("bad")

main()
"""


def test_a_script_that_records_its_errors_for_torchrun_fails_with_its_own(script):
    assert end(run(script(RECORDED, ""), ranks=1)).why == "Rank 0 raised ValueError at script.py:5: bad"


MODULE = (
    "from .near import NAME\nprint('who:', __name__, __package__, __spec__.name, NAME, sys.argv[1:], sys.path[0])\n"
)


def test_a_module_runs_as_python_would_run_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pkg").mkdir()
    for name, text in {"__init__": "", "near": "NAME = 'near'\n", "train": "import sys\n" + MODULE}.items():
        (tmp_path / "pkg" / f"{name}.py").write_text(text)
    (tmp_path / "pkg" / "__main__.py").write_text("import sys\n" + MODULE)
    for name, spec in {"pkg.train": "pkg.train", "pkg": "pkg.__main__"}.items():
        request = Request(of_module(name), args=("-x",), ranks=1, device="cpu", module=name)
        said = of(list(Run(request).events()), Output)
        assert [line.value for line in said] == [f"__main__ pkg {spec} near ['-x'] {tmp_path}"]


@pytest.mark.parametrize("name", ["nope", "pkg.nope", "pkg"])
def test_a_module_that_is_not_there_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").touch()
    missing = "pkg.__main__" if name == "pkg" else name
    with pytest.raises(UserError) as refused:
        of_module(name)
    assert (
        str(refused.value) == f"There is no module {missing}; -m searches where `python -m` does, first in {tmp_path}."
    )


LOADER = """\
import torch
from torch.utils.data import DataLoader, Dataset

class Squares(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, at):
        return torch.tensor(at * at)

if __name__ == "__main__":
    for how in ("fork", "spawn"):
        loader = DataLoader(Squares(), batch_size=2, num_workers=2, multiprocessing_context=how)
        print(f"{how}: {sum(int(batch.sum()) for batch in loader)}")
"""


def test_data_loaders_have_workers_of_either_kind(script):
    events = run(script(LOADER, ""), ranks=1, timeout=None)
    said = [
        event for event in of(events, Output) if event.stream == "stdout"
    ]  # with one core torch warns of two workers
    assert [(event.label, event.value) for event in said] == [("fork", "140"), ("spawn", "140")]
    assert end(events).ok


SPAWNING = """\
import os, multiprocessing, torch, torch.distributed as dist

def work(rank, world, way):
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": "29871"}
    dist.init_process_group("gloo", rank=rank, world_size=world)
    x = torch.ones(1) * (rank + 1)
    dist.all_reduce(x)
    os.write(1, f"{way}: {x.item()}\\n".encode())  # in one piece, also where PYTHONUNBUFFERED is set
    dist.barrier()
    os._exit(0)

if __name__ == "__main__":
    for _ in range(2):  # ranks that come later must not find what earlier ones have left
        forked = [multiprocessing.get_context("fork").Process(target=work, args=(r, 2, "forked")) for r in range(2)]
        for process in forked:
            process.start()
        for process in forked:
            process.join()
    torch.multiprocessing.spawn(work, args=(2, "spawned"), nprocs=2)
"""


def test_ranks_that_a_script_starts_itself_meet_on_loopback_and_are_not_watched(script):
    events = run(script(SPAWNING, ""), ranks=1, timeout=None)
    said = [event.text for event in of(events, Output) if event.stream == "stdout"]
    assert sorted(said) == ["forked: 3.0"] * 4 + ["spawned: 3.0"] * 2
    assert of(events, Issued) == []
    assert [note.text.partition(";")[0] for note in of(events, Note)] == [
        "The script starts ranks of its own with torch.multiprocessing"
    ]
    assert end(events).ok


def test_a_rank_may_become_another_program(script):
    body = """
    if len(sys.argv) == 1:
        os.execv(sys.executable, [sys.executable, __file__, "again"])
    print("rank:", os.environ["RANK"])
    """
    events = run(script(body, "import os, sys\n"))
    assert sorted(event.value for event in of(events, Output)) == ["0", "1"]
    assert end(events).ok


def test_a_script_may_keep_signals_for_itself(script):
    body = """
    import signal
    for which in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
        signal.signal(which, lambda which, _: print("got:", signal.Signals(which).name))
        os.kill(os.getpid(), which)
    """
    events = run(script(body, "import os\n"), ranks=1)
    assert [event.value for event in of(events, Output)] == ["SIGUSR1", "SIGUSR2", "SIGTERM"]
    assert end(events).ok


def test_a_progress_bar_is_one_line_that_shows_its_end(script):
    events = run(script("print('10%', '50%', '100%', sep='\\r', file=sys.stderr)"), ranks=1)
    assert [event.text for event in of(events, Output)] == ["100%"]


SETTINGS = {
    "import os\nos.environ['TORCH_LOGS'] = '+ddp'\nimport torch\n": ["TORCH_LOGS"],
    "import os\nos.environ.setdefault('OMP_NUM_THREADS', '4')\nfrom torch import nn\n": ["OMP_NUM_THREADS"],
    "import os\nos.environ.update({'MKL_NUM_THREADS': '4', 'HOME': '/'})\nimport torch\n": ["MKL_NUM_THREADS"],
    "import os\nos.environ['TORCH_DISTRIBUTED_DEBUG'] = 'DETAIL'\nimport torch\n": [],  # applied late
    "import os, torch\nos.environ['TORCH_LOGS'] = '+ddp'\n": [],  # too late anywhere
    "import os\nprint(os.environ['OMP_NUM_THREADS'])\nimport torch\n": [],
}


@pytest.mark.parametrize("source", SETTINGS)
def test_what_a_script_sets_for_the_import_of_torch_is_noted(tmp_path, source):
    path = tmp_path / "train.py"
    path.write_text(source)
    assert [note.partition(",")[0].removeprefix("The script sets ") for note in read(path).notes] == SETTINGS[source]


def test_modules_in_the_working_directory_do_not_take_the_place_of_others(tmp_path):
    for name in ("types", "queue", "profile", "script"):
        (tmp_path / f"{name}.py").write_text("print('hello: from the wrong module')\n")
    (tmp_path / "scripts").mkdir()
    path = tmp_path / "scripts" / "script.py"
    path.write_text("import queue\nprint('queue:', hasattr(queue, 'Queue'))\n")
    ran = subprocess.run(
        [Path(sys.executable).with_name("ddpquiz"), "run", "--nproc", "1", path],
        capture_output=True, text=True, timeout=60, cwd=tmp_path,
    )  # fmt: skip
    assert "rank 0  queue: True" in ran.stdout, ran.stderr
    assert "wrong" not in ran.stdout


def processes_of(marker):
    found = subprocess.run(["pgrep", "-f", marker], capture_output=True, text=True, check=False)
    return found.stdout.split()


@pytest.mark.skipif(not shutil.which("pgrep"), reason="needs pgrep")
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
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_nothing_is_left_when_the_launcher_goes(script, number):
    path = script("print('pid:', os.getpid())\ntime.sleep(60)\n")
    launcher = subprocess.Popen(
        [sys.executable, "-m", "ddpquiz", "run", "--nproc", "2", "--plain", path],
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
    status = launcher.wait(60)
    assert status == {signal.SIGINT: 130, signal.SIGTERM: 143}.get(number, -number)
    end_by = time.monotonic() + 30
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


LISTENING = """\
import multiprocessing, os, torch, torch.distributed as dist
r, w = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

def work(rank):
    dist.init_process_group("gloo", init_method="tcp://0.0.0.0:29873", rank=rank, world_size=2)
    dist.barrier()
    os._exit(0)

dist.init_process_group("gloo", init_method="tcp://0.0.0.0:29872", rank=r, world_size=w)
dist.barrier()
dist.destroy_process_group()
if r == 0:
    mine = [multiprocessing.get_context("fork").Process(target=work, args=(rank,)) for rank in range(2)]
    for process in mine:
        process.start()
    for process in mine:
        process.join()
"""


def may_trace():
    """Whether strace is here, and may look at other processes: in many a container it may not."""
    return (
        bool(shutil.which("strace"))
        and not subprocess.run(["strace", "-qq", "-o", os.devnull, "true"], check=False).returncode
    )


@pytest.mark.skipif(not may_trace(), reason="needs strace")
def test_no_process_binds_or_listens_anywhere_but_on_loopback_even_for_a_moment(script, tmp_path):
    trace, path = tmp_path / "trace", script(LISTENING, "")
    traced = ["strace", "-f", "-qq", "-e", "trace=bind,listen", "-o", trace]
    ran = subprocess.run(
        [*traced, sys.executable, "-m", "ddpquiz", "run", "--nproc", "2", path],
        capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    calls = trace.read_text()
    bound = re.findall(r"bind\((\d+), .*AF_INET6?, .*inet_(?:addr|pton)\((?:AF_INET6, )?\"([^\"]+)\"", calls)
    assert len(bound) >= 5  # the store, two ranks, two ranks that a rank has forked
    assert {address for _, address in bound} == {"127.0.0.1"}
    assert set(re.findall(r"listen\((\d+),", calls)) <= {file for file, _ in bound}


def test_too_many_ranks_are_refused(script):
    with pytest.raises(UserError, match="--nproc is 65, but one machine runs 1 to 64 ranks"):
        Run(Request(script("pass"), ranks=65))


def test_a_server_that_died_is_replaced(script):
    assert end(run(script("pass"))).ok
    launch.server().process.kill()
    launch.server().process.wait()
    assert end(run(script("pass"))).ok


def test_a_server_that_logs_a_lot_does_not_stand_still(monkeypatch, tmp_path):
    """As it and the store do with TORCH_CPP_LOG_LEVEL=INFO: after some dozens of runs a pipe would be full."""
    (tmp_path / "talkative.py").write_text("import sys\nprint('log\\n' * 100_000, file=sys.stderr)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    launch.close()
    serving = launch.server()
    assert serving.machine
    serving.send(Preload(("talkative",)))
    time.sleep(0.5)  # it does so while it has nothing else to do
    serving.send(QueryMachine())
    answers, _, _ = select.select([serving.channel], [], [], 10)
    launch.close()  # its search path holds this folder
    assert answers


def test_a_server_that_dies_leaves_its_last_words():
    serving = launch.server()
    assert serving.machine
    serving.log.write(b"first\nlast words\n")
    serving.log.flush()
    serving.process.kill()
    with pytest.raises(UserError, match=r"has died \(last words\)"):
        serving.receive()


def test_a_deleted_working_folder_is_reported_in_a_sentence(tmp_path, script):
    (tmp_path / "gone").mkdir()
    program = "import os, sys\nos.rmdir(os.getcwd())\nfrom ddpquiz.cli.app import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", program, "run", script("pass")], cwd=tmp_path / "gone", capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (1, "The current folder was deleted; change to another one.\n")
