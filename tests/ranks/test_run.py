"""Runs of real ranks: what they print and report, how they fail, and how they end."""

import os
import subprocess
import sys

import passed
import pytest
from inline_snapshot import snapshot
from real_run import end, of, run

from ddpquiz.errors import UserError
from ddpquiz.events.event import Began, Claimed, Ended, Exited, Issued, Output, Raised, Result
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run

pytestmark = passed.ENGINE


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_each_rank_says_what_it_holds_and_the_run_ends_well(script, ranks):
    events = run(script('dist.all_reduce(x)\nprint(f"sum: {x[0].item()}")\nprint("INFO: a log line")'), ranks)
    said = {(event.rank, event.label, event.value) for event in of(events, Output) if event.label}
    assert said == {(rank, "sum", str(float(ranks * (ranks + 1) / 2))) for rank in range(ranks)}
    assert [event.text for event in of(events, Output) if not event.label] == ["INFO: a log line"] * ranks
    assert isinstance(events[0], Began)
    assert end(events).ok


def test_a_claim_that_holds_is_reported_once_by_each_rank(script):
    events = run(script('for _ in range(3):\n    assert rank >= 0, "ranks count from 0"\nassert rank < 9\n'))
    assert [claim.text for claim in events[0].claims] == ["ranks count from 0"]
    assert sorted((event.rank, event.held) for event in of(events, Claimed)) == [(0, True), (1, True)]
    assert (end(events).proven, end(events).claims) == (1, 1)


def test_a_broken_claim_ends_the_run_with_its_line(script):
    path = script('dist.barrier()\nassert rank == 0, "everybody is rank 0"\ndist.barrier()\n')
    events = run(path)
    assert (end(events).ok, end(events).rank, end(events).proven) == (False, 1, 0)
    assert end(events).why == snapshot("Rank 1 raised AssertionError at script.py:6: everybody is rank 0")
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


def test_annotations_of_the_script_are_its_own(script):
    events = run(script("def f(x: int): pass\nprint('annotation:', f.__annotations__['x'] is int)"), ranks=1)
    assert [event.value for event in of(events, Output)] == ["True"]


def test_too_many_ranks_are_refused(script):
    with pytest.raises(UserError, match="--nproc is 65, but one machine runs 1 to 64 ranks"):
        Run(Request(script("pass"), ranks=65))


def test_a_deleted_working_folder_is_reported_in_a_sentence(tmp_path, script):
    (tmp_path / "gone").mkdir()
    program = "import os, sys\nos.rmdir(os.getcwd())\nfrom ddpquiz.cli.app import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", program, "run", script("pass")], cwd=tmp_path / "gone", capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (1, "The current folder was deleted; change to another one.\n")
