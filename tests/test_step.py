"""Runs that stop before each operation: real ranks, stepped without a screen and on a real terminal."""

import ast
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pytest
from program import ddpquiz

from ddpquiz.analysis.events import Hung, Issued, Waited
from ddpquiz.curriculum.demo_scripts import demos
from ddpquiz.paths import demos_dir
from ddpquiz.ranks.inside.gate import Gate
from ddpquiz.ranks.launch import Request
from ddpquiz.ranks.run import STEPPED, Run
from ddpquiz.terminal.runs.step import Stepping, next_calls

DEMOS = [
    demo.name for demo in demos(demos_dir()) if not demo.restarts
]  # torchrun's agent, which starts them, has no steps
# Claims that may break, since ranks that step together wait for each other more than they would.
LOCKSTEP = {"pipeline": "with GPipe and with 1F1B, (p-1)/(m+p-1) of the step is idle"}
LOOK = 1.5  # seconds; longer than anything in these runs takes, also on a busy machine
HEAD = """\
import os, sys, time, torch, torch.distributed as dist
from datetime import timedelta
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
x = torch.ones(2) * (rank + 1)
"""


@pytest.fixture
def script(tmp_path):
    def write(body, head=HEAD):
        path = tmp_path / "script.py"
        path.write_text(head + textwrap.dedent(body) + "\ndist.destroy_process_group()\n")
        return path

    return write


def started(path, ranks=2, timeout=10.0):
    return Run(Request(path, ranks=ranks, device="cpu", timeout=timeout, step=True))


def to_stop(run):
    """Follow a run until its ranks stand still or it is over; return what each rank is about to call."""
    while not run.over and not run.stands:
        run.read(0.02)
    return {} if run.over else {rank: [call.op for call in calls] for rank, calls in sorted(run.gates.before.items())}


def stops(run):
    found = []
    while stop := to_stop(run):
        found.append(stop)
        run.step()
    return found


@pytest.mark.parametrize("name", DEMOS)
def test_every_demo_can_be_stepped_to_its_end(name):
    run = started(demos_dir() / f"{name}.py")
    assert stops(run) or not any(isinstance(event, Issued) for event in run.seen.brought.values())
    assert run.seen.end.ok or run.seen.end.why.endswith(LOCKSTEP.get(name, "?")), run.seen.end.why


def test_all_ranks_stop_before_each_operation(script):
    run = started(script("dist.all_reduce(x)\nprint('sum:', x[0].item())\ndist.barrier()\n"), ranks=3)
    assert to_stop(run) == {0: ["all_reduce"], 1: ["all_reduce"], 2: ["all_reduce"]}
    assert run.seen.rows == {}
    run.step()
    assert to_stop(run) == {0: ["barrier"], 1: ["barrier"], 2: ["barrier"]}
    assert run.seen.rows == {"sum": {rank: ["6.0"] for rank in range(3)}}
    run.step()
    assert to_stop(run) == {}
    assert run.seen.end.ok


def test_a_rank_that_is_blocked_in_a_communication_does_not_hold_up_the_step(script):
    body = """
    if rank == 0:
        dist.recv(x, src=1)
        print("got:", x.tolist())
    elif rank == 1:
        dist.all_reduce(x, group=dist.new_group([1, 2], use_local_synchronization=True))
        dist.send(x, dst=0)
    else:
        dist.all_reduce(x, group=dist.new_group([1, 2], use_local_synchronization=True))
    """
    assert stops(run := started(script(body), ranks=3)) == [
        {0: ["recv"], 1: ["all_reduce"], 2: ["all_reduce"]},
        {1: ["send"]},  # rank 0 waits for this, rank 2 has ended
    ]
    assert run.seen.rows == {"got": {0: ["[5.0, 5.0]"]}}
    assert run.seen.end.ok


def test_a_rank_that_sleeps_does_not_hold_up_the_others_for_ever(script):
    assert stops(started(script("if rank: time.sleep(1)\ndist.all_reduce(x)\n"))) == [
        {0: ["all_reduce"]},
        {1: ["all_reduce"]},
    ]


def test_the_pause_does_not_count_against_the_time_out_of_a_group(script):
    head = "from ddpquiz.ranks.inside import worker\nworker.LESSON = 0.1\n" + HEAD.replace(
        '"gloo"', '"gloo", timeout=timedelta(seconds=1)'
    )
    run = started(
        script(
            "if rank == 0: dist.recv(x, 1)\nelse:\n    dist.barrier(dist.new_group([1], use_local_synchronization=True))\n    dist.send(x, 0)\n",
            head,
        )
    )
    assert to_stop(run) == {0: ["recv"], 1: ["barrier"]}
    run.step()
    assert to_stop(run) == {1: ["send"]}
    pause(run, 1.5)
    run.step()
    assert to_stop(run) == {}
    assert run.seen.end.ok, run.seen.end.why


def test_a_short_time_out_is_what_a_script_is_about(script):
    body = "if rank == 0: dist.recv(x, 1)\nelse: time.sleep(60)\n"
    run = started(script(body, HEAD.replace('"gloo"', '"gloo", timeout=timedelta(seconds=1)')))
    stops(run)
    assert "Timed out waiting 1000ms" in run.seen.raised[0].message


def pause(run, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        run.read(0.05)


@pytest.mark.parametrize("clock", ["time", "perf_counter", "monotonic_ns"])
def test_clocks_stand_still_while_all_ranks_do(script, clock):
    body = f"""
    began = time.{clock}()
    dist.recv(x, 1) if rank == 0 else dist.send(x, 0)
    between = time.{clock}()
    dist.barrier()
    print("took:", [between - began, time.{clock}() - between])
    """
    run = started(script(body))
    while to_stop(run):
        pause(run, LOOK)
        run.step()
    assert run.seen.end.ok
    unit = 1e9 if clock.endswith("_ns") else 1
    for rank in (0, 1):
        took = ast.literal_eval(run.seen.rows["took"][rank][-1])
        assert all(0 <= each / unit < LOOK for each in took)


def test_a_rank_that_sleeps_does_not_stop_the_clocks(script):
    body = """
    began = time.perf_counter()
    if rank: time.sleep(1)
    print("slept:", time.perf_counter() - began)
    dist.all_reduce(x)
    """
    run = started(script(body))
    stops(run)
    assert float(run.seen.rows["slept"][1][-1]) > 0.5


def test_what_is_told_of_a_run_does_not_count_the_looks(script):
    run = started(script("dist.recv(x, 1) if rank == 0 else dist.send(x, 0)\ndist.all_reduce(x)\ndist.barrier()\n"))
    events = []
    run.listeners.append(events.append)
    began, looked = time.monotonic(), 0
    while to_stop(run):
        pause(run, LOOK)
        run.step()
        looked += LOOK
    times = [event.time for event in events[1:]]
    assert times[-1] == max(times) < time.monotonic() - began - looked + 0.1
    assert looked >= 3 * LOOK
    assert all(each.seconds < LOOK for each in run.seen.timeline.collectives)
    assert all(wait.time - wait.since < LOOK for wait in events if isinstance(wait, Waited))


def test_a_claim_that_breaks_may_be_due_to_the_stepping(script):
    run = started(script("dist.all_reduce(x)\nassert x[0] == 4, 'it is four'\n"))
    stops(run)
    assert run.seen.end.why.endswith("raised AssertionError: it is four")
    assert run.seen.end.mend == STEPPED


def test_a_run_that_is_looked_at_does_not_hang(script):
    run = started(script("dist.all_reduce(x)\n"), timeout=1.0)
    assert to_stop(run)
    pause(run, 2.5)
    assert not run.over
    run.step()
    assert to_stop(run) == {}
    assert run.seen.end.ok


def test_a_hang_is_found_between_two_stops(script):
    run = started(script("if rank == 0: dist.recv(x, 1)\nelse: time.sleep(60)\n"), timeout=1.0)
    assert stops(run) == [{0: ["recv"]}]
    assert isinstance(run.seen.hung, Hung)


def test_a_run_can_be_let_go(script):
    run = started(script("for _ in range(20): dist.all_reduce(x)\nprint('done: yes')\n"))
    assert to_stop(run)
    run.gates.let_go()
    assert to_stop(run) == {}
    assert run.seen.end.ok
    assert run.seen.rows["done"] == {0: ["yes"], 1: ["yes"]}


def test_what_comes_after_a_run_was_let_go_is_not_kept_to_step_through(script):
    run = started(script("dist.all_reduce(x)\nfor at in range(9): print(at)\n"))
    stepping = Stepping(run, run.gates)
    assert to_stop(run) != {}
    stepping.take("c")
    kept = len(stepping.events)
    assert to_stop(run) == {}
    assert len(run.seen.lines) == 18
    assert len(stepping.events) == kept


def test_what_a_rank_forks_does_not_stop():
    ours, theirs = socket.socketpair()
    gate = Gate(ours.fileno())
    pid = os.fork()
    if pid == 0:
        gate.wait()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    for each in (ours, theirs):
        each.close()


def test_a_rank_that_is_killed_at_its_gate_ends_the_run(script):
    run = started(script("dist.all_reduce(x)\n"))
    assert to_stop(run)
    os.kill(run.seen.pids[1], signal.SIGKILL)
    while not run.over:
        run.read(0.05)
    assert (run.seen.end.ok, run.seen.end.rank) == (False, 1)


def call(rank, op="all_reduce", peer=None, before=(), reduce="sum", line=7):
    return Issued(
        0.1, rank, 1, op, (0, 1, 2), peer, ((2,),), "float32", 8, "/far/away/demo.py", line, before, "0", reduce
    )


NEXT = {
    (call(0), call(1), call(2)): ["next  ranks 0-2 call all_reduce · sum · demo.py:7 · 8 bytes"],
    (call(0, before=("[1.0, 2.0]",)), call(1, before=("[3.0, 4.0]",))): [
        "next  rank 0 calls all_reduce · sum · demo.py:7 · 1 2",
        "next  rank 1 calls all_reduce · sum · demo.py:7 · 3 4",
    ],
    (call(0, "send", 1, reduce=""), call(1, "recv", 0, reduce="")): [
        "next  rank 0 calls send · to 1 · demo.py:7 · 8 bytes",
        "next  rank 1 calls recv · from 0 · demo.py:7 · 8 bytes",
    ],
    tuple(call(rank, line=rank + 1) for rank in range(6)): [
        *(f"next  rank {rank} calls all_reduce · sum · demo.py:{rank + 1} · 8 bytes" for rank in (0, 1, 2)), "and 3 more"
    ],
}  # fmt: skip


@pytest.mark.parametrize("calls", NEXT, ids=len)
def test_what_comes_next_is_said_in_a_line_for_ranks_that_do_the_same(calls):
    lines = [line.plain for line in next_calls(calls)]
    assert lines == NEXT[calls]


RIGHT, LEFT = "\x1b[C", "\x1b[D"


def row(shown, label):
    return next(line.split() for line in shown.splitlines() if line.startswith(label))


def test_a_run_is_stepped_in_a_terminal_on_back_and_to_its_end(script):
    path = script("dist.all_reduce(x)\ndist.broadcast(x * rank, 1)\nprint('ready: yes')\n")
    terminal = ddpquiz("run", str(path), "--nproc", "2", "--step")
    terminal.wait("step 1 ", "next  rank 0 calls all_reduce · sum · script.py:6 · 1 1")
    shown = terminal.press(RIGHT, "step 2 ", "rank 1 calls broadcast · from 1")
    assert row(shown, "gets") == ["gets", "3", "3", "3", "3"]
    assert row(terminal.press(LEFT, "step 1 of 2"), "gets") == ["gets", "-", "-"]
    terminal.press(RIGHT, "step 2 ·")
    terminal.press(RIGHT)
    assert terminal.end() == 0
    assert row(terminal.text, "ready") == ["ready", "yes", "yes"]


def test_a_stepped_run_runs_on_at_a_key(script):
    terminal = ddpquiz("run", str(script("for _ in range(9): dist.all_reduce(x)\n")), "--nproc", "2", "--step")
    terminal.wait("step 1 ")
    terminal.press("c")
    assert terminal.end() == 0
    assert "\ndone in " in terminal.text


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_a_stepped_run_is_stopped_at_a_key(script, key):
    terminal = ddpquiz("run", str(script("dist.all_reduce(x)\n")), "--nproc", "2", "--step")
    terminal.wait("step 1 ")
    terminal.press(key)
    assert terminal.end() == 130


def test_the_log_of_a_rank_can_be_read_at_a_stop(script):
    path = script("print('a line of rank', rank)\ndist.all_reduce(x)\n")
    terminal = ddpquiz("run", str(path), "--nproc", "2", "--step")
    terminal.wait("step 1 ")
    assert "next  rank" not in terminal.press("1", "^rank 1$", "esc back")
    terminal.press("1", "next  rank 0")
    terminal.press("q")
    assert terminal.end() == 130


DEMO = ["demo", "collectives", "--nproc", "2", "--step"]
REFUSED = {
    (): "--step waits for keys, so it needs a terminal, and neither --plain nor --json.",
    ("--json",): "--step waits for keys, so it needs a terminal, and neither --plain nor --json.",
}


@pytest.mark.parametrize("more", REFUSED, ids=str)
def test_nobody_can_step_without_a_terminal(more):
    ran = subprocess.run(
        [sys.executable, "-m", "ddpquiz", *DEMO, *more], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr.strip()) == (1, "", REFUSED[more])


@pytest.mark.parametrize(
    ("name", "ranks"), [("allreduce", 3), ("ddp", 2), ("parameter_server", 3), ("model_parallel", 2)]
)
def test_a_demo_is_stepped_to_its_end_by_holding_the_key(name, ranks):
    terminal = ddpquiz("demo", name, "--nproc", str(ranks), "--step", "--no-predict", height=60, width=120)
    terminal.wait("step 1 ")
    until = time.monotonic() + 100
    while terminal.child.isalive() and "\nenter go on" not in terminal.text:
        assert time.monotonic() < until, terminal.text
        terminal.press(RIGHT)
        terminal.read(0.05)
    terminal.press("\r")
    assert terminal.end() == 0
    assert "\ndone in " in terminal.text
