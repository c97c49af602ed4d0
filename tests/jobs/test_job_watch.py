"""`ddpquiz watch`: a job while its ranks write their files, ranks that do the same, and the verdict at its end."""

import itertools
import os
import subprocess
import sys

import pytest
from rich.console import Console

from ddpquiz.diagnosis.alike_ranks import alike_ranks
from ddpquiz.events.event import Alive, Began, Ended, Exited, Issued, MemoryPeak, Raised, ScriptFinished
from ddpquiz.events.operation import Operation
from ddpquiz.events.run_state import RunState
from ddpquiz.ranks.inside.rank_writer import RankWriter
from ddpquiz.terminal.kit.screen import Screen
from ddpquiz.terminal.runs.job_watch import JobFollower, JobScreen

RANKS = 20


def operation(line, ranks=RANKS):
    return Operation("all_reduce", tuple(range(ranks)), None, ((4,),), "float32", 16, "/train.py", line, "0", "sum")


@pytest.fixture
def job(tmp_path):
    """Return what lets a rank write that it calls lines of a script, of which the last one does not end."""

    def write(rank, lines, ranks, *, exits=None):
        writer = RankWriter(tmp_path, 100, Began("/train.py", (), ranks, "cpu", "gloo", "Recorded."), 0)
        numbers = itertools.count(1)
        writer.open(rank)
        for line in lines:
            number = next(numbers)
            writer.write(writer.issued(writer.now(), number, (), writer.prepare(operation(line, ranks))))
            if line != lines[-1]:
                writer.write(writer.ended(writer.now(), number))
        if exits is not None:
            writer.send(Raised(writer.now(), rank, "ValueError", "bad batch", ""))
            writer.send(Exited(writer.now(), rank, exits))
        writer.close()

    return write


def test_ranks_that_are_in_the_same_operation_and_line_are_put_together():
    state = RunState()
    state.add(Began("/train.py", (), 6, "cpu", "gloo", ""))
    for rank in range(4):
        state.add(Issued(1.0, rank, 1 + rank, operation(9 if rank < 3 else 11, 6)))
    state.add(Ended(2.0, 3, 4))
    state.add(MemoryPeak(2.0, 4, 0, 1 << 20, 0))
    state.add(Exited(2.0, 4, 0))
    groups = alike_ranks(state, present=range(5))
    assert [(each.ranks, each.doing, each.line, each.calls) for each in groups] == [
        ((0, 1, 2), "all_reduce of 4 float32", 9, (1, 3)),
        ((3,), "computing", 11, (4, 4)),
        ((4,), "has finished", 0, (0, 0)),
        ((5,), "no record yet", 0, (0, 0)),
    ]
    assert alike_ranks(state, range(5), gone=(3,))[1].doing == "its process is gone"


def test_a_rank_has_finished_only_if_it_came_to_the_end_of_its_script():
    """Like os._exit(0) in the middle, and like a rank that waits for a thread of its own."""
    state = RunState()
    state.add(Began("/train.py", (), 4, "cpu", "gloo", ""))
    state.add(Alive(1.0, 0, "/train.py", 5))
    state.add(Exited(2.0, 0, 0))
    state.add(Alive(1.0, 1, "/train.py", 6, "thread.join()"))
    state.add(ScriptFinished(1.0, 2, 0))
    state.add(MemoryPeak(2.0, 3, 0, 1 << 20, 0))
    state.add(Exited(2.0, 3, 3))
    groups = alike_ranks(state, present=range(4))
    assert [(each.ranks, each.doing, each.line) for each in groups] == [
        ((0,), "exited with status 0", 5),
        ((1,), "waits in `thread.join()`", 6),
        ((2,), "has come to the end of its script", 0),
        ((3,), "exited with status 3", 0),
    ]


def test_a_job_of_more_than_16_ranks_is_drawn_in_groups_and_a_smaller_one_in_lanes(job, tmp_path):
    for rank in range(RANKS):
        job(rank, [3, 9] if rank != 7 else [3, 3, 11], RANKS)
    follower = JobFollower(tmp_path)
    assert follower.read()
    assert not follower.over
    console = Console(width=80, height=24, file=open(os.devnull, "w"))  # noqa: SIM115, PTH123
    with console.capture() as shown:
        console.print(JobScreen(follower, Screen(console)).picture()[0])
    lines = [line.rstrip() for line in shown.get().splitlines()]
    assert "  ranks 0-6 and 8-19  all_reduce of 4 float32  train.py:9   2 calls" in lines
    assert "  rank 7              all_reduce of 4 float32  train.py:11  3 calls" in lines


def test_in_a_pipe_an_empty_folder_is_waited_for_and_the_end_of_the_job_brings_the_verdict(job, tmp_path):
    command = [sys.executable, "-m", "ddpquiz", "watch", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"COLUMNS": "80"}) as watching:
        assert watching.stdout.readline() == f"Waiting for records in {tmp_path} ... (ctrl+c leaves)\n"
        job(0, [3, 9], 2, exits=1)
        job(1, [3, 9], 2, exits=1)
        text, _ = watching.communicate(timeout=60)
    assert watching.returncode == 0
    assert "A rank is dead\nRanks 0 and 1 raised ValueError: bad batch" in text


def test_a_process_of_this_machine_that_is_gone_has_ended(job, tmp_path):
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    job(0, [3], 1)
    path = tmp_path / "rank-0.jsonl"
    path.write_text(path.read_text().replace(f'"pid": {os.getpid()},', f'"pid": {child.pid},'))
    follower = JobFollower(tmp_path)
    follower.read()
    assert follower.gone == {0}
