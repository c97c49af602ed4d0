"""What the verdict says of a recorded job whose ranks have not recorded how they ended: it runs, or it was cut short."""

import os
import subprocess
import sys
import time
from dataclasses import replace

import passed
import pytest
from inline_snapshot import snapshot

from ddpquiz.diagnosis.event_diagnosis import diagnose
from ddpquiz.diagnosis.job_diagnosis import diagnose_job
from ddpquiz.events import saved_run
from ddpquiz.events.event import Alive, Began, End, Ended, Exited, Issued, MemoryPeak, Raised, Recorded, Started
from ddpquiz.events.operation import Operation
from ddpquiz.events.run_frame import describe_frame
from ddpquiz.events.run_state import RunState
from ddpquiz.jobs.log_file import read_logs
from ddpquiz.jobs.rank_files import find_unended, read_rank_files
from ddpquiz.ranks.inside.rank_writer import RankWriter

pytestmark = passed.COMMANDS

RANKS = 3
CALL = Operation("all_reduce", (0, 1, 2), None, ((4,),), "float32", 16, "/train.py", 9, "0", "sum")
END = [(MemoryPeak, 0, 1 << 20, 0), (Exited, 0)]  # as a script that comes to its end


@pytest.fixture(scope="module")
def gone():
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        return child.pid


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Return what writes the file of a rank: it calls twice, and the second call ends if `done`; `then` follows."""

    def write(rank, pid, *, calls=2, done=True, at=1.0, then=()):
        with monkeypatch.context() as patched:
            patched.setattr(os, "getpid", lambda: pid)
            writer = RankWriter(tmp_path, 100, Began("/train.py", (), RANKS, "cpu", "gloo", "Recorded."), 0)
        writer.open(rank)
        for number in range(1, calls + 1):
            writer.write(writer.issued(at, number, (), writer.prepare(CALL)))
            if done or number < calls:
                writer.write(writer.ended(at, number))
        for kind, *fields in then:
            writer.send(kind(at, rank, *fields))
        writer.close()

    return write


def after_a_call(folder, rank, restart):
    """The writer of one of two ranks, which have called and ended one operation."""
    writer = RankWriter(folder, 100, Began("/train.py", (), 2, "cpu", "gloo", "Recorded."), restart)
    writer.open(rank)
    writer.write(writer.issued(writer.now(), 1, (), writer.prepare(CALL._replace(members=(0, 1)))))
    writer.write(writer.ended(writer.now(), 1))
    return writer


def verdict(folder, change=lambda event: event):
    record = read_rank_files(folder)
    record = replace(record, events=tuple(map(change, record.events)))
    return diagnose_job(record, RunState.after(record.events))


def test_ranks_that_are_gone_without_an_end_are_named_and_that_it_is_not_known_who_ended_first(write, gone, tmp_path):
    for rank in range(RANKS):
        write(rank, gone)
    found = verdict(tmp_path)
    assert (found.fault, found.culprits) == ("unknown", ())
    assert found.sentence == snapshot(
        "Ranks 0-2 ended without a word, all at about the same time. Until then, all calls fit together."
    )
    assert found.limits[0].startswith("Which rank ended first is not known, nor how")
    assert [str(each) for each in found.positions] == ["ranks 0-2: last seen at train.py:9"]


def test_of_ranks_that_are_gone_those_are_told_for_which_the_others_waited_briefly(write, gone, tmp_path):
    """As torchrun leaves it that ends the others at once after one was killed."""
    for rank, calls in enumerate((2, 1, 2)):
        write(rank, gone, calls=calls, done=rank == 1)
    found = verdict(tmp_path)
    assert (found.fault, found.culprits) == ("unknown", ())
    assert found.sentence == snapshot(
        "Ranks 0-2 ended without a word, all at about the same time. Ranks 0 and 2 had called all_reduce at train.py:9, and rank 1 had not. Until then, all calls fit together."
    )
    assert "most likely among those that had not: rank 1" in found.limits[1]
    assert [str(each) for each in found.positions] == [
        "ranks 0 and 2: all_reduce of 4 float32 at train.py:9", "rank 1: last seen at train.py:9",
    ]  # fmt: skip


@pytest.mark.parametrize("others", ["went on", "run"])
def test_a_rank_that_was_gone_while_the_others_went_on_is_dead(others, write, gone, tmp_path):
    write(1, gone, calls=1)
    for rank in (0, 2):
        write(rank, gone if others == "went on" else os.getpid(), done=False)
    later = 10.0 if others == "went on" else 1.0
    for rank in (0, 2):
        with (tmp_path / f"rank-{rank}.jsonl").open("a") as file:
            file.write(f'{{"event": "alive", "time": {later}, "rank": {rank}, "file": "/train.py", "line": 9}}\n')
    found = verdict(tmp_path)
    assert (found.fault, found.culprits) == ("dead", (1,))
    assert found.sentence == snapshot(
        "Ranks 0 and 2 wait in all_reduce at train.py:9 for rank 1: it is gone, and its record ends at train.py:9."
    )
    assert "a kill, a crash in native code and os._exit()" in found.limits[0]


def test_a_job_that_hung_before_it_was_killed_still_has_its_late_rank(write, gone, tmp_path):
    for rank, calls in enumerate((2, 1, 2)):
        write(rank, gone, calls=calls, done=rank == 1)
        with (tmp_path / f"rank-{rank}.jsonl").open("a") as file:
            file.write(f'{{"event": "alive", "time": 60.0, "rank": {rank}, "file": "/train.py", "line": 14}}\n')
    found = verdict(tmp_path)
    assert (found.fault, found.culprits) == ("late", (1,))
    assert "If the job still runs" not in found.advice


def test_a_job_that_still_runs_is_said_to_run(write, tmp_path):
    for rank in range(RANKS):
        write(rank, os.getpid())
    found = verdict(tmp_path)
    assert (found.fault, found.culprits) == ("quiet", ())
    assert found.sentence == snapshot(
        "The job still runs: ranks 0-2 have not ended. The calls of all ranks fit together, in 2 recorded operations."
    )


def test_a_job_that_still_runs_is_saved_as_one_without_a_known_fault(write, tmp_path):
    for rank in range(RANKS):
        write(rank, os.getpid())
    command = [sys.executable, "-m", "ddpquiz", "diagnose", str(tmp_path), "--save", str(tmp_path / "job.json")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, f"Saved {tmp_path / 'job.json'}.\n")
    assert ran.stdout.startswith("Nothing shows a fault\nThe job still runs: ranks 0-2 have not ended.")
    state = RunState.after(saved_run.read(tmp_path / "job.json"))
    assert state.end
    assert (state.end.ok, state.end.rank) == (True, None)
    (said, tone), (until, _) = describe_frame(state, str).result
    assert said.startswith("The job still runs: ranks 0-2 have not ended.")
    assert tone == ""
    assert until.startswith("\nrecorded up to ")


def test_a_rank_that_still_runs_when_the_others_have_finished_is_not_dead(write, tmp_path):
    for rank in range(RANKS):
        write(rank, os.getpid(), then=END if rank else ())
    found = verdict(tmp_path)
    assert found.fault == "quiet"
    assert found.sentence.startswith("The job still runs: rank 0 has not ended. ")


def test_no_fault_is_found_where_all_ranks_have_recorded_their_end(write, gone, tmp_path):
    for rank in range(RANKS):
        write(rank, gone, then=END)
    assert verdict(tmp_path).fault == "none"


def test_of_another_machine_a_job_that_just_wrote_may_run_and_a_silent_one_is_over(write, gone, tmp_path):
    for rank in range(RANKS):
        write(rank, gone)
    for wall, fault, words in (
        (time.time(), "quiet", "whether the job still runs is not known here."),
        (time.time() - 900, "unknown", "ended without a word"),
    ):
        elsewhere = {"host": "elsewhere", "wall": wall}
        found = verdict(
            tmp_path, lambda event, to=elsewhere: replace(event, **to) if isinstance(event, Recorded) else event
        )
        assert found.fault == fault
        assert words in found.sentence


def test_a_process_that_began_after_the_record_is_another_one(write, tmp_path):
    write(0, os.getpid())
    record = read_rank_files(tmp_path)
    assert find_unended(record, RunState.after(record.events)) == {0: "runs"}
    began = next(event for event in record.events if isinstance(event, Recorded))
    earlier = tuple(replace(event, clock=0.001) if event is began else event for event in record.events)
    assert find_unended(replace(record, events=earlier), RunState.after(earlier)) == {0: "gone"}


def test_of_a_record_that_was_saved_with_its_verdict_it_is_not_known_whether_the_job_runs(write, gone, tmp_path):
    for rank in range(RANKS):
        write(rank, gone)
    record = read_rank_files(tmp_path)
    saved = replace(record, events=(*record.events, End(2.0, False, 0, 0)))
    found = diagnose_job(saved, RunState.after(saved.events))
    assert (found.fault, found.culprits) == ("quiet", ())
    assert "whether the job still runs is not known here" in found.sentence


def test_a_log_that_says_how_a_rank_ended_decides_who_is_dead(write, gone, tmp_path):
    for rank, calls in enumerate((2, 1, 2)):
        write(rank, gone, calls=calls, done=rank == 1)
    log = tmp_path / "job.log"
    log.write_text("Root Cause (first observed failure):\n  rank      : 1 (local_rank: 1)\n  exitcode  : -9 (pid: 9)\n")
    record = replace(read_rank_files(tmp_path), log=read_logs([log], ["job.log"], RANKS))
    found = diagnose_job(record, RunState.after(record.events))
    assert (found.fault, found.culprits) == ("dead", (1,))
    assert found.sentence.startswith("Rank 1 was killed by SIGKILL")


LOST = "[pair.cc] Connection closed by peer [127.0.0.1]:1"


@pytest.mark.parametrize(("waited", "fault"), [(0.05, "stopped"), (20.0, "late")])
def test_an_interrupt_is_no_cause_unless_ranks_had_waited_long_before(waited, fault):
    """Rank 1 was interrupted, rank 0 then lost its connection: the first case is that of a healthy job."""
    trace = 'Traceback (most recent call last):\n  File "/train.py", line 4, in <module>\n'
    pair = CALL._replace(members=(0, 1))
    events = [Began("/train.py", (), 2, "cpu", "gloo", ""), *(Started(0.0, rank, 9) for rank in range(2))]
    with_end = [(1.0, rank, 1) for rank in range(2)]
    events += [Issued(at, rank, number, pair) for at, rank, number in with_end]
    events += [Ended(at + 0.01, rank, number) for at, rank, number in with_end]
    events += [Issued(2.0, 0, 2, pair), Alive(2.0 + waited, 1, "/train.py", 4)]
    events += [Raised(2.0 + waited, 1, "KeyboardInterrupt", "", trace), Exited(2.1 + waited, 1, 1)]
    events += [Ended(2.2 + waited, 0, 2, failed=True), Raised(2.2 + waited, 0, "RuntimeError", LOST, trace)]
    found = diagnose(RunState.after(events))
    assert (found.fault, found.culprits) == (fault, () if fault == "stopped" else (1,))


@pytest.mark.parametrize("then", ["finished", "went on"])
def test_of_a_job_that_was_restarted_it_is_said_what_failed_first_and_that_it_recovered(then, tmp_path):
    for restart in (0, 1):
        for rank in range(2):
            writer = after_a_call(tmp_path, rank, restart)
            if restart == 0 and rank == 1:
                writer.send(Raised(writer.now(), 1, "ValueError", "bad batch", ""))
                writer.send(Exited(writer.now(), 1, 1))
            if restart == 1 and then == "finished":
                writer.send(MemoryPeak(writer.now(), rank, 0, 1 << 20, 0))
                writer.send(Exited(writer.now(), rank, 0))
            writer.close()
    found = verdict(tmp_path)
    assert (found.fault, found.culprits) == ("none" if then == "finished" else "quiet", ())
    assert found.sentence.endswith(
        " The ranks were restarted once. What failed first, before that: Rank 1 raised ValueError: bad batch. "
        f"The job recovered, and {then}."
    )


STOPPED = (
    "W1130 01:00:00.000000 7 torch/distributed/elastic/api.py:753] Received 15 death signal, shutting down workers\n"
)


def with_log(folder, text):
    """Return the verdict on the record in a folder beside a log."""
    (folder / "job.log").write_text(text)
    record = replace(read_rank_files(folder), log=read_logs([folder / "job.log"], ["job.log"], RANKS))
    return diagnose_job(record, RunState.after(record.events))


def test_of_a_job_that_was_stopped_it_is_told_what_its_record_says_and_where_its_ranks_were_seen(write, gone, tmp_path):
    for rank in range(RANKS):
        write(rank, gone, calls=0, then=[(Alive, "/train.py", 14)])
    found = with_log(tmp_path, STOPPED)
    assert (found.fault, [str(each) for each in found.positions]) == (
        "stopped",
        ["ranks 0-2: last seen at train.py:14"],
    )
    assert found.limits[-1] == snapshot(
        "The record by itself does not show why: Ranks 0-2 ended without a word, all at about the same time. They had not communicated yet."
    )


IN_THREAD = """\
Exception in thread Thread-1 (fill):
Traceback (most recent call last):
  File "/train.py", line 13, in fill
    label = int(rec)
ValueError: no number
step 5
"""


def test_an_exception_that_ended_a_thread_is_told_beside_a_record(write, gone, tmp_path):
    for rank, calls in enumerate((2, 1, 2)):
        write(rank, gone, calls=calls, done=rank == 1)
        with (tmp_path / f"rank-{rank}.jsonl").open("a") as file:
            file.write(f'{{"event": "alive", "time": 60.0, "rank": {rank}, "file": "/train.py", "line": 14}}\n')
    found = with_log(tmp_path, IN_THREAD + STOPPED)
    assert (found.fault, found.culprits) == ("late", (1,))
    assert "ValueError at train.py:13 ended a thread or a callback" in found.sentence
    assert found.advice.startswith("Find out whether the rank waits there for what that thread was to do.")


HANDLED = """\
step 5
Traceback (most recent call last):
  File "/train.py", line 21, in main
    upload(step)
ValueError: no such service
"""


def test_an_exception_that_may_have_been_handled_is_no_end_of_a_rank(write, gone, tmp_path):
    for rank in range(RANKS):
        write(rank, gone)
    (tmp_path / "rank1.log").write_text(HANDLED)
    log = read_logs([tmp_path / "rank1.log"], ["rank1.log"], RANKS)
    record = replace(read_rank_files(tmp_path), log=log)
    found = diagnose_job(record, RunState.after(record.events))
    assert (found.fault, found.culprits) == ("unknown", (1,))
    assert found.sentence.startswith("The last thing in the log of rank 1 is an exception: ValueError at train.py:21")
    assert any(limit.startswith("The record by itself does not show why: Ranks 0-2 ended") for limit in found.limits)


FAILED = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "/train.py", line 30, in main
[rank1]:     raise ValueError("bad batch")
[rank1]: ValueError: bad batch
E1130 01:00:00.000000 7 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 1 (pid: 9) of binary: python
"""


@pytest.mark.parametrize("restart", [0, 1])
def test_a_failure_before_the_last_restart_is_not_the_one_of_the_job(restart, tmp_path, monkeypatch):
    """The record of the ranks that were restarted has no failure, but the log still holds the first one."""
    monkeypatch.setattr(os, "getpid", lambda: 2**22)
    for rank in range(2):
        writer = after_a_call(tmp_path, rank, restart)
        writer.close()
    found = with_log(tmp_path, FAILED + STOPPED)
    assert (found.fault, found.culprits) == (("stopped", ()) if restart else ("dead", (1,)))
