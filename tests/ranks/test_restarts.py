"""Restarts of failed ranks: torchrun's agent under our watch."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import passed
import pytest
from inline_snapshot import snapshot
from places import ROOT

from ddpquiz.events.event import End, Exited, Hung, Output, Started, decode
from ddpquiz.ranks.elastic_run import AGENT, ElasticRun
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.server_connection import server

pytestmark = passed.COMMANDS

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
HEAD = """\
import os, sys, time, torch, torch.distributed as dist
life = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
x = torch.ones(2)
"""


@pytest.fixture
def script(tmp_path):
    def write(body, head=HEAD):
        path = tmp_path / "script.py"
        path.write_text(head + textwrap.dedent(body))
        return path

    return write


def run(path, restarts=1, ranks=2, **request):
    return list(
        ElasticRun(Request(path, ranks=ranks, device="cpu", timeout=20.0, restarts=restarts, **request)).events()
    )


def until_ready(script):
    """Start two ranks under the agent, and wait until both are past a barrier; they stay there."""
    path = script("dist.barrier()\nprint('ready: yes')\ntime.sleep(60)")
    running = ElasticRun(Request(path, ranks=2, device="cpu", restarts=1))
    while len(running.seen.rows.get("ready", {})) < 2:
        assert not running.over, running.seen.end.why
        running.read(0.1)
    return running


def test_an_agent_that_is_killed_is_a_failure(script):
    running = until_ready(script)
    os.kill(running._processes.pids[AGENT], signal.SIGKILL)
    last = end(list(running.events()))
    assert (last.ok, last.why) == (False, "torchrun's agent has failed: signal 9")


def test_what_a_rank_wrote_last_is_read_although_the_agent_has_ended(script, monkeypatch):
    monkeypatch.setattr("ddpquiz.ranks.processes.PASSES", 0)  # as if the launcher had slept until the run was over
    last = end(run(script("if rank == 1: raise ValueError('too late')"), restarts=1))
    assert (last.ok, last.rank) == (False, 1)
    assert "too late" in last.why


def of(events, kind):
    return [event for event in events if isinstance(event, kind)]


def end(events):
    assert isinstance(events[-1], End)
    return events[-1]


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def all_gone(pids, seconds=60):
    until = time.monotonic() + seconds
    while not all(map(gone, pids)) and time.monotonic() < until:
        time.sleep(0.02)
    return all(map(gone, pids))


def descendants(pid):
    """Return a process and all that stem from it."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone meanwhile
            parents[int(entry.name)] = parent_of(entry.name)
    family = {pid}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return family


def listening(pids):
    """Return the addresses, as the kernel writes them, on which these processes listen."""
    sockets = {str(fd.readlink()) for pid in pids for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()}
    found = set()
    for pid in pids:
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                    found.add(fields[1].split(":")[0])
    return found


class RunningCommand:
    """`ddpquiz run --json` in a process of its own."""

    def __init__(self, words):
        self.events = []
        command, *rest = map(str, words)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ddpquiz", command, "--json", *rest],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def until(self, enough):
        """Read events until `enough(events)`."""
        while not enough(self.events):
            line = self.process.stdout.readline()
            assert line, self.events[-1]
            self.events.append(decode(line))
        return self.events

    def finish(self):
        """Read to the end, and return what happened."""
        self.events += map(decode, self.process.stdout)
        self.process.wait(60)
        return self.events


def test_a_rank_that_dies_once_is_started_again_with_all_others(script):
    body = """
    dist.all_reduce(x)
    print(f"life: {life}")
    if rank == 1 and life == 0:
        raise ValueError("once")
    dist.barrier()
    assert x[0] == world, "the sum is right"
    dist.destroy_process_group()
    """
    events = run(script(body), restarts=1)
    started = [(event.rank, event.restart) for event in of(events, Started)]
    assert sorted(started) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert len({event.pid for event in of(events, Started)}) == 4
    assert sorted((event.rank, event.value) for event in of(events, Output) if event.label == "life") == [
        (0, "0"),
        (0, "1"),
        (1, "0"),
        (1, "1"),
    ]
    assert sorted((event.rank, event.status) for event in of(events, Exited)[-2:]) == [(0, 0), (1, 0)]
    assert (end(events).ok, end(events).proven, end(events).why) == (True, 1, "")


def test_half_a_line_of_the_first_life_is_not_joined_with_the_second(script):
    body = """
    import sys
    sys.stdout.write("loss: 5\\n" if life else "half a line")
    sys.stdout.flush()
    dist.barrier()
    if life == 0:
        os._exit(1)
    """
    said = [event for event in of(run(script(body), restarts=1), Output) if event.stream == "stdout"]
    assert sorted(event.text for event in said) == ["half a line"] * 2 + ["loss: 5"] * 2
    assert [event.value for event in said] == [None] * 2 + ["5"] * 2


def test_a_claim_that_the_first_life_broke_does_not_count_against_the_second(script):
    events = run(script('assert life == 1, "it is the second life"\ndist.barrier()\n'), restarts=1)
    assert (end(events).why, end(events).proven) == ("", 1)


def test_a_failed_rank_that_takes_its_time_to_end_is_no_hang(script):
    body = """
    import atexit
    if rank == 1 and life == 0:
        atexit.register(time.sleep, 1.5)
        raise ValueError
    dist.barrier()
    """
    events = run(script(body), restarts=1)
    assert (end(events).ok, end(events).why) == (True, "")


def test_when_no_restart_is_left_the_reason_of_the_last_failure_is_told(script):
    events = run(script("if rank == 1:\n    raise ValueError(f'in life {life}')\ndist.barrier()\n"), restarts=1)
    assert (end(events).ok, end(events).rank) == (False, 1)
    assert end(events).why.startswith("Rank 1 raised ValueError at script.py:7: in life 1")


def test_a_killed_rank_is_started_again(script):
    events = run(script("if rank == 0 and life == 0: os.kill(os.getpid(), 9)\ndist.barrier()\n"), restarts=1)
    assert end(events).ok
    assert (0, -9) in {(event.rank, event.status) for event in of(events, Exited)}


def test_a_hang_is_noticed_under_the_agent_too(script):
    path = script("if rank == 1:\n    time.sleep(60)\ndist.all_reduce(x)\n")
    request = Request(path, ranks=2, device="cpu", timeout=1.0, restarts=1)
    events = list(ElasticRun(request).events())
    assert not end(events).ok
    assert end(events).why == (
        snapshot(
            "Rank 0 waits in all_reduce at script.py:8 for rank 1: it has not reached this call and was last seen at "
            "script.py:7."
        )
    )


def test_ranks_that_gave_up_waiting_say_for_whom_when_no_restart_is_left(script):
    head = HEAD.replace('init_process_group("gloo")', 'init_process_group("gloo", timeout=timedelta(seconds=1))')
    body = "if rank == 1:\n    time.sleep(60)\ndist.all_reduce(x)\n"
    events = run(script(body, "from datetime import timedelta\n" + head), restarts=1)
    assert end(events).why == (
        snapshot(
            "Rank 0 waited in all_reduce at script.py:9 for rank 1 until the group's timeout of 1 s had passed: it has "
            "not reached this call and was last seen at script.py:8."
        )
    )


def test_a_failed_rank_that_never_ends_is_a_hang_for_the_others(script):
    body = """
    import atexit
    if rank == 1:
        atexit.register(time.sleep, 60)
        raise ValueError
    dist.barrier()
    """
    request = Request(script(body), ranks=2, device="cpu", timeout=1.0, restarts=1)
    events = list(ElasticRun(request).events())
    assert of(events, Hung)
    assert end(events).why == snapshot("Rank 1 raised ValueError at script.py:10")


def test_a_script_may_handle_the_signal_with_which_torchrun_ends_ranks(script):
    body = """
    import signal
    def bye(*_):
        print("checkpoint: written", flush=True)
        os._exit(0)
    signal.signal(signal.SIGTERM, bye)
    dist.barrier()
    if rank == 1:
        raise ValueError
    time.sleep(60)
    """
    events = run(script(body), restarts=1)
    assert [event.rank for event in of(events, Output) if event.label == "checkpoint"] == [0, 0]


@linux
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_of_agent_ranks_and_their_children_when_the_parent_goes(script, number):
    body = """
    import subprocess
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    print("pid:", child.pid)
    time.sleep(60)
    """
    running = RunningCommand(["run", "--nproc", 2, "--max-restarts", 1, "--device", "cpu", script(body)])
    running.until(lambda events: len(of(events, Output)) == 2)
    family = descendants(running.process.pid) - {running.process.pid}
    assert {int(event.value) for event in of(running.events, Output)} < family
    assert {event.pid for event in of(running.events, Started)} < family
    running.process.send_signal(number)
    running.finish()
    assert running.process.returncode == (130 if number == signal.SIGINT else -number)
    assert all_gone(family)


def test_a_rank_that_the_agent_ends_is_not_the_cause(script):
    body = """
    dist.barrier()
    if rank == 0:
        raise RuntimeError("Connection closed by peer")  # reads as if another rank had failed before
    time.sleep(60)
    """
    events = run(script(body), restarts=1)
    assert (end(events).rank, end(events).why) == (
        0,
        "Rank 0 raised RuntimeError at script.py:9: Connection closed by peer",
    )
    assert [event.stopped for event in of(events, Exited) if event.rank == 1] == [True, True]


@linux
def test_what_forks_ranks_has_no_other_thread(script):
    """What another thread has locked at that moment would stay locked in the rank: one in hundreds hung for ever."""
    running = until_ready(script)
    ranks = set(running.seen.pids.values())
    family = descendants(server().process.pid)
    forked = {parent for child in family for parent in [parent_of(child)] if parent in family}
    threads = {pid: len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in forked}
    running.stop("enough")
    list(running.events())
    assert len(threads) == 4  # the server, the agent, and who stands for each rank
    assert not forked & ranks
    assert set(threads.values()) == {1}


@linux
def test_with_one_node_only_loopback_is_listened_on(script):
    running = until_ready(script)
    found = listening(descendants(server().process.pid))
    running.stop("seen enough")
    list(running.events())
    assert found == {"0100007F"}  # 127.0.0.1


def test_the_events_of_a_node_are_lines_of_json(script):
    done = subprocess.run(
        [sys.executable, "-m", "ddpquiz", "run", "--nproc", "1", "--max-restarts", "1", "--json", script("pass")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    kinds = [json.loads(line)["event"] for line in done.stdout.splitlines()]
    assert (kinds[0], kinds[-1]) == ("run", "end")
