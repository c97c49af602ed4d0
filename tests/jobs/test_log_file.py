"""Which file a log is, whose each line is, and the wordings of other versions of torch, of Slurm and of Ray.

Lines that no log in tests/data holds are written here as the sources of torch have them, or as public logs show them;
docs/diagnose.md says so.
"""

import json
import random
from pathlib import Path

import pytest

from ddpquiz.diagnosis.log_diagnosis import diagnose_log
from ddpquiz.jobs import log_file
from ddpquiz.jobs.job_reader import read_job
from ddpquiz.jobs.log_file import LoggedError, LoggedExit, LoggedProgress, LoggedWait, read_logs

DATA = Path(__file__).parents[1] / "data"
RAISED = (DATA / "logs/raised/log").read_text("utf-8")
SLOW = (DATA / "nccl/slow_data/log").read_text("utf-8")


def read(folder, texts, ranks=0):
    """Write logs and read them; `texts` is the text of one, or several by their names."""
    texts = {"log": texts} if isinstance(texts, str) else texts
    paths = []
    for name, text in texts.items():
        paths.append(folder / name)
        paths[-1].parent.mkdir(parents=True, exist_ok=True)
        paths[-1].write_text(text, "utf-8", newline="")
    return read_logs(paths, [*texts], ranks)


def of(kind, log):
    return [fact for fact in log.facts if isinstance(fact, kind)]


# What may stand in front of each line, and be left out.
def bare(text, rank):
    return "".join(
        line.removeprefix(f"[rank{rank}]: ").removeprefix(f"[rank{rank}]:") for line in text.splitlines(keepends=True)
    )


def of_rank(text, rank):
    """The lines of one rank, without torch's prefix."""
    return bare("".join(line for line in text.splitlines(keepends=True) if line.startswith(f"[rank{rank}]:")), rank)


FRONTS = {
    "a time": lambda line: f"2026-11-27 08:35:15,123 {line}",
    "a time of Kubernetes": lambda line: f"2026-11-27T08:35:15.48675097Z {line}",
    "a time in brackets": lambda line: f"[2026-11-27 08:35:15] {line}",
    "Ray": lambda line: f"(WorkerDict pid=3490362) {line}",
    "Ray on another machine": lambda line: f"(RayWorkerWrapper pid=270291, ip=192.0.2.4) {line}",
    "torchrun --tee": lambda line: f"[default0]:{line}",
    "colors": lambda line: f"\x1b[32m{line}\x1b[0m",
    "srun --label of a node": lambda line: f"0: {line}",
    "a progress bar": lambda line: f"  5%|#    | 1/20 [00:01<00:19]\r 10%|##   | 2/20 [00:02<00:18]\r{line}",
    "a line that another rank has not ended": lambda line: f"loading{line}" if line.startswith("[rank") else line,
}  # fmt: skip


@pytest.mark.parametrize("front", FRONTS)
def test_what_stands_in_front_of_lines_is_no_part_of_them(tmp_path, front):
    lines = RAISED.partition("W1127")[0].splitlines()  # the ranks alone
    found = diagnose_log(read(tmp_path, "".join(f"{FRONTS[front](line)}\n" for line in lines)))
    assert (found.fault, found.culprits) == ("dead", (1,))
    assert found.sentence.startswith("Rank 1 raised ValueError at job.py:12: bad batch in shard 17")
    assert "log:4: ValueError: bad batch in shard 17" in found.evidence


NAMES = ("rank{}.log", "rank_{}.err", "{}/stderr.log", "none_x/attempt_0/{}/stderr.log", "slurm-4711_{}.out", "job.{}.log",
         "node0-rank-{}.txt", "log_{}")  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_the_rank_of_a_file_is_in_its_name_or_folder(tmp_path, name):
    texts = {name.format(rank): of_rank(RAISED, rank) for rank in range(3)}
    log = read(tmp_path, texts)
    assert log.ranks == 3
    found = diagnose_log(log)
    assert (found.fault, found.culprits) == ("dead", (1,))
    assert f"{name.format(1)}:4: ValueError" in found.evidence[0]


def test_a_number_in_the_name_of_one_file_is_no_rank(tmp_path):
    assert read(tmp_path, {"slurm-17.out": "loss 0.1\n"}).seen == ()
    assert read(tmp_path, {"run_7.log": "loss 0.1\n"}).seen == ()


def test_srun_puts_the_rank_in_front_of_each_line(tmp_path):
    lines = [(rank, line) for rank in range(3) for line in of_rank(RAISED, rank).splitlines()]
    found = diagnose_log(read(tmp_path, "".join(f"{rank}: {line}\n" for rank, line in lines)))
    assert (found.fault, found.culprits) == ("dead", (1,))
    assert "Ranks 0 and 2 failed because of that." in found.sentence


def test_a_job_may_have_sixteen_thousand_ranks(tmp_path):
    log = read(tmp_path, RAISED.replace("[rank1]:", "[rank16383]:"))
    assert (log.ranks, log.seen[-1], diagnose_log(log).culprits) == (16384, 16383, (16383,))


def test_the_watchdog_of_a_group_names_the_rank_in_that_group_and_torch_the_rank_of_the_job(tmp_path):
    text = (
        "slurm0: [rank17]:[E ProcessGroupNCCL.cpp:523] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL("
        "SeqNum=4, OpType=ALLREDUCE, NumelIn=9437184, NumelOut=9437184, Timeout(ms)=600000) ran for 600070 milliseconds "
        "before timing out.\n"
    )  # of torch 2.2
    (wait,) = of(LoggedWait, read(tmp_path, text))
    assert (wait.rank, wait.sequence, wait.op, wait.elements, wait.seconds) == (17, 4, "all_reduce", 9437184, 600.07)


# The watchdog's words from version to version: by it, rank 0 waited in the 7th collective, and the 6th had completed.
WATCHDOG = "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=_ALLGATHER_BASE, "
ENDED = "Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n"
WORDINGS = {
    "2.0": f"[E ProcessGroupNCCL.cpp:828] {WATCHDOG}{ENDED}",
    "2.1": f"[E ProcessGroupNCCL.cpp:474] {WATCHDOG}NumelIn=1024, NumelOut=16384, {ENDED}",
    "2.3": f"[rank0]:[E ProcessGroupNCCL.cpp:564] {WATCHDOG}NumelIn=1024, NumelOut=16384, {ENDED}"
    "[rank0]:[E ProcessGroupNCCL.cpp:1540] [PG 1 Rank 0] Timeout at NCCL work: 7, last enqueued NCCL work: 8, last "
    "completed NCCL work: 6.\n",
    "2.4": f"[rank0]:[E1003 18:37:01.832146912 ProcessGroupNCCL.cpp:607] {WATCHDOG}NumelIn=1024, NumelOut=16384, {ENDED}"
    "[rank0]:[E1003 18:37:01.833575187 ProcessGroupNCCL.cpp:1664] [PG 1 (default_pg) Rank 0] Exception (either an error "
    "or timeout) detected by watchdog at work: 7, last enqueued NCCL work: 8, last completed NCCL work: 6.\n",
    "2.5": f"[rank0]:[E227 16:30:43.526290891 ProcessGroupNCCL.cpp:616] {WATCHDOG}NumelIn=1024, NumelOut=16384, {ENDED}"
    "[rank0]:[E227 16:30:43.526290891 ProcessGroupNCCL.cpp:1785] [PG ID 2 PG GUID 1 Rank 0] Exception (either an error or "
    "timeout) detected by watchdog at work: 7, last enqueued NCCL work: 8, last completed NCCL work: 6.\n",
    "2.7": f"[rank0]:[E813 12:25:30.691567129 ProcessGroupNCCL.cpp:632] {WATCHDOG}NumelIn=1024, NumelOut=16384, {ENDED}"
    "[rank0]:[E813 12:25:30.692163833 ProcessGroupNCCL.cpp:2271] [PG ID 1 PG GUID 1 Rank 0]  failure detected by watchdog "
    "at work sequence id: 7 PG status: last enqueued work: 8, last completed work: 6\n",
}  # fmt: skip


@pytest.mark.parametrize("version", WORDINGS)
def test_the_watchdog_is_understood_in_its_words_of_each_version(tmp_path, version):
    log = read(tmp_path, WORDINGS[version])
    (wait,) = of(LoggedWait, log)
    assert (wait.rank, wait.sequence, wait.op, wait.seconds) == (0, 7, "all_gather_into_tensor", 600.029)
    if version >= "2.3":
        (progress,) = of(LoggedProgress, log)
        assert (progress.rank, progress.group, progress.enqueued, progress.completed) == (0, "1", 8, 6)
        assert wait.group == "1"


def test_ranks_of_unnamed_groups_may_have_waited_in_different_ones(tmp_path):
    text = "".join(
        f"[rank{rank}]:[E ProcessGroupNCCL.cpp:564] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL("
        f"SeqNum=7, OpType=ALLREDUCE, NumelIn={rank + 1}, NumelOut={rank + 1}, {ENDED}"
        for rank in range(2)
    )
    found = diagnose_log(read(tmp_path, text))
    assert found.fault == "signature"
    assert (
        "The logs do not name the groups of these calls: the ranks may have waited in different ones." in found.limits
    )


def test_the_heartbeat_monitor_that_aborts_a_rank_is_quoted(tmp_path):
    text = (
        "[rank25]:[E ProcessGroupNCCL.cpp:1316] [PG 0 Rank 25] Heartbeat monitor timed out! Process will be terminated "
        "after dumping debug info. workMetaList_.size()=2\n"
        "[rank25]:[F ProcessGroupNCCL.cpp:1169] [PG 0 Rank 25] [PG 0 Rank 25] ProcessGroupNCCL's watchdog got stuck for "
        "600 seconds without making progress in monitoring enqueued collectives. This typically indicates a NCCL/CUDA API "
        "hang blocking the watchdog\nsrun: error: node3: task 25: Aborted (core dumped)\n"
    )
    found = diagnose_log(read(tmp_path, text))
    assert (found.fault, found.culprits) == ("dead", (25,))
    assert found.sentence == "Rank 25 was killed by SIGABRT. Before that: Heartbeat monitor timed out"


def test_what_the_watchdog_tells_again_when_it_ends_a_process_is_told_once(tmp_path):
    again = (
        "terminate called after throwing an instance of 'c10::DistBackendError'\n"
        f"  what():  [PG ID 2 PG GUID 3 Rank 5] Process group watchdog thread terminated with exception: {WATCHDOG}{ENDED}"
    )
    log = read(tmp_path, WORDINGS["2.7"] + again)
    assert [wait.rank for wait in of(LoggedWait, log)] == [0]
    assert log.seen == (0,)


def test_an_error_of_the_gpu_that_only_the_watchdog_notices_is_the_ranks_own(tmp_path):
    text = (
        "[rank1]:[E409 05:10:01.930967482 ProcessGroupNCCL.cpp:1595] [PG ID 3 PG GUID 12(TENSOR_PARALLEL) Rank 0] Process "
        "group watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered\n"
    )
    found = diagnose_log(read(tmp_path, text))
    assert (found.fault, found.culprits) == ("dead", (1,))
    assert found.sentence == "Rank 1 raised CUDA error: an illegal memory access was encountered"
    assert "set CUDA_LAUNCH_BLOCKING=1" in found.limits[0]


def test_the_end_of_a_log_names_the_rank_that_timed_out_before_it(tmp_path):
    text = SLOW.partition("[rank2]:[E1127 08:29:26.444357767")[2]
    found = diagnose_log(read(tmp_path, text))
    assert (found.fault, found.culprits) == ("unknown", ())
    assert found.sentence == "Rank 1 timed out in a collective, say the other ranks; in which one is not here."
    assert "rank 2: last enqueued number 5, completed 5, of group 0" in map(str, found.positions)


def test_deepspeeds_launcher_says_how_a_rank_ended(tmp_path):
    text = (
        "[2023-11-28 10:00:34,590] [ERROR] [launch.py:321:sigkill_handler] ['/opt/venv/bin/python', '-u', 'train.py', "
        "'--local_rank=3', '--bf16'] exits with return code = -9\n"
    )
    found = diagnose_log(read(tmp_path, text))
    assert (found.fault, found.culprits) == ("dead", (3,))
    assert found.sentence == "Rank 3 was killed by SIGKILL."


# What Slurm writes of the end of its tasks.
SLURM = {
    "srun: error: node1: task 3: Exited with exit code 1\n": [(3, 1)],
    "srun: error: node1: tasks 0-1,3: Exited with exit code 137\n": [(0, -9), (1, -9), (3, -9)],
    "srun: error: node1: task 2: Killed\n": [(2, -9)],
    "srun: error: node1: task 2: Segmentation fault (core dumped)\n": [(2, -11)],
    "srun: error: node1: task 2: Out Of Memory\n": [(2, -9)],
    "srun: error: Unable to create step for job 17: More processors requested than permitted\n": [],
}


@pytest.mark.parametrize("line", SLURM)
def test_slurm_says_how_tasks_ended(tmp_path, line):
    assert [(fact.rank, fact.status) for fact in of(LoggedExit, read(tmp_path, line))] == SLURM[line]


def test_the_kernels_out_of_memory_killer_is_told(tmp_path):
    text = "slurmstepd: error: Detected 1 oom_kill event in StepId=17.0. Some of the step tasks have been OOM Killed.\n"
    found = diagnose_log(read(tmp_path, f"{text}srun: error: node1: task 2: Out Of Memory\n"))
    assert (found.fault, found.culprits) == ("dead", (2,))
    assert found.sentence == "Rank 2 was killed because memory ran out."
    assert found.evidence[0].startswith("log:1: slurmstepd: error: Detected 1 oom_kill event")


def test_a_time_limit_of_slurm_stops_a_job(tmp_path):
    text = "step 5 loss 0.1\nslurmstepd: error: *** JOB 17 ON node1 CANCELLED AT 2026-11-27T08:00:00 DUE TO TIME LIMIT ***\n"
    found = diagnose_log(read(tmp_path, text))
    assert (found.fault, found.sentence) == (
        "stopped",
        "The job was stopped by Slurm. Before that, no rank wrote an error.",
    )


# Which of several errors is the first one.

KEY = 'Traceback (most recent call last):\n  File "/home/user/train.py", line {}, in <module>\n    x[0]\nKeyError: {}\n'


LOST = (
    'Traceback (most recent call last):\n  File "a.py", line 8, in <module>\nRuntimeError: Connection closed by peer\n'
)


def at(moment, text):
    return "".join(f"2026-11-27 08:00:{moment:02} {line}\n" for line in text.splitlines())


def test_the_first_of_two_errors_is_the_one_with_the_earlier_time(tmp_path):
    found = diagnose_log(read(tmp_path, {"rank0.log": at(30, KEY.format(9, 0)), "rank1.log": at(0, KEY.format(7, 0))}))
    assert found.culprits == (1,)
    assert found.limits[1:] == ("Rank 0 raised KeyError later.",)


def test_an_error_without_a_time_may_have_come_later_than_the_line_before(tmp_path):
    early, late = at(0, "step 1") + KEY.format(7, 0), at(30, "step 9") + KEY.format(9, 0)
    found = diagnose_log(read(tmp_path, {"rank0.log": late, "rank1.log": early}))
    assert found.culprits == (1,)
    assert found.limits[1:] == ("Rank 0 raised KeyError too; the logs do not show which of them was first.",)


def test_two_errors_of_which_none_is_surely_the_first_are_both_told(tmp_path):
    found = diagnose_log(read(tmp_path, {"rank0.log": KEY.format(9, 0), "rank1.log": KEY.format(7, 0)}))
    assert found.culprits == (0,)
    assert found.limits[1:] == ("Rank 1 raised KeyError too; the logs do not show which of them was first.",)


def test_equal_errors_of_many_ranks_are_told_once(tmp_path):
    found = diagnose_log(read(tmp_path, {f"rank{rank}.log": KEY.format(7, rank) for rank in range(40)}))
    assert found.culprits == tuple(range(40))
    assert found.evidence == ("rank0.log:4: KeyError: 0 (and 39 lines like it)",)
    assert [position.ranks for position in found.positions] == [tuple(range(40))]


def test_an_error_after_a_time_out_is_not_the_cause(tmp_path):
    later = "".join(f"[rank0]: {line}\n" for line in KEY.format(40, "'state'").splitlines())
    text = SLOW.partition("W1127 08:29:28")[0] + later
    assert diagnose_log(read(tmp_path, text)).culprits == (2,)


def test_of_an_error_that_was_raised_from_another_one_the_first_counts(tmp_path):
    text = (
        KEY.format(7, 0)
        + "\nThe above exception was the direct cause of the following exception:\n\n"
        + KEY.format(9, 1)
    )
    (error,) = of(LoggedError, read(tmp_path, text))
    assert "line 7" in error.traceback
    text = (
        KEY.format(7, 0)
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + KEY.format(9, 1)
    )
    (error,) = of(LoggedError, read(tmp_path, text))
    assert "line 9" in error.traceback


def test_a_worker_of_a_data_loader_shows_the_line_of_the_dataset(tmp_path):
    text = (
        '[rank0]: Traceback (most recent call last):\n[rank0]:   File "/home/user/train.py", line 30, in <module>\n'
        "[rank0]:     for batch in loader:\n[rank0]: ValueError: Caught ValueError in DataLoader worker process 0.\n"
        "[rank0]: Original Traceback (most recent call last):\n"
        '[rank0]:   File "/opt/venv/lib/python3.12/site-packages/torch/utils/data/_utils/worker.py", line 349, in _worker_loop\n'
        '[rank0]:   File "/home/user/data.py", line 12, in __getitem__\n[rank0]: ValueError: bad image\n'
    )
    found = diagnose_log(read(tmp_path, text))
    assert "Rank 0 raised ValueError at data.py:12" in found.sentence


def test_a_rank_that_nobody_names_stays_unknown(tmp_path):
    lost = "".join(f"[rank0]: {line}\n" for line in LOST.splitlines())
    found = diagnose_log(read(tmp_path, KEY.format(7, 0) + lost))
    assert (found.fault, found.culprits) == ("dead", ())
    assert found.sentence.startswith("A rank raised KeyError at train.py:7")
    assert found.limits[0].startswith("The lines do not say which rank wrote them")


@pytest.mark.parametrize(
    ("file", "culprits", "whose"), [("rank1.log", (1,), "the log of rank 1"), ("a", (), "this log")]
)
def test_an_exception_that_ends_a_log_may_have_been_printed_by_a_handler(tmp_path, file, culprits, whose):
    """What traceback.print_exc() prints looks like what Python prints at the end."""
    found = diagnose_log(read(tmp_path, {file: f"step 1\n{KEY.format(7, 0)}"}))
    assert (found.fault, found.culprits) == ("unknown", culprits)
    assert found.sentence == f"The last thing in {whose} is an exception: KeyError at train.py:7: 0"
    assert found.limits[0].startswith("The log does not say whether the rank ended by it")
    assert found.evidence == (f"{file}:5: KeyError: 0",)


@pytest.mark.parametrize(
    "more",
    [
        LOST,
        "W1127 08:43:15.992000 829 torch/distributed/elastic/multiprocessing/api.py:1012] Sending process 846 closing signal SIGTERM\n",
    ],
    ids=["another rank lost it", "its launcher ends the others"],
)
def test_an_exception_that_ends_a_log_ended_its_rank_if_another_log_shows_that(tmp_path, more):
    found = diagnose_log(read(tmp_path, {"rank1.log": KEY.format(7, 0), "rank0.log": more}))
    assert (found.fault, found.culprits) == ("dead", (1,))


HEALTHY = [
    "step {} loss 0.1 error 0.02 failed 0\n", "WARNING: retrying after ConnectionError: Connection reset by peer\n",
    ("[rank0]:[W1127 08:05:59.314338581 Utils.hpp:137] Warning: Environment variable TORCH_NCCL_TRACE_BUFFER_SIZE is "
     "deprecated; use TORCH_FR_BUFFER_SIZE instead (function operator())\n"),
    ("[rank1]:[I1127 08:05:59.000000000 ProcessGroupNCCL.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank 1] NCCL Work update "
     "periodically: last enqueued NCCL work: 12, last completed NCCL work: 11.\n"),
    "node1:17:17 [0] NCCL INFO Connected all rings\n",
    "node1:17:17 [0] transport/net_ib.cc:17 NCCL WARN NET/IB : No device found.\n", "Error rate: 0.0, exceptions: none\n", "\r 50%|#### | 1/2 [00:01]",
    "RuntimeError: this is a comment of a teacher\n", "exitcode: 0\n", "Signal 9 is called SIGKILL\n",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_lines_of_a_healthy_log_are_no_fault(tmp_path, seed):
    choose = random.Random(seed)
    text = "".join(choose.choice(HEALTHY).replace("{}", str(number)) for number in range(60))
    assert diagnose_log(read(tmp_path, text)).fault == "quiet"


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_log_is_read_as_far_as_it_goes(tmp_path, seed):
    choose = random.Random(seed)
    data = bytearray(choose.choice(sorted(DATA.glob("*/*/log"))).read_bytes())
    for _ in range(choose.randint(1, 12)):
        at = choose.randrange(len(data) + 1)
        data[at : at + choose.randint(0, 300)] = choose.choice(
            [b"", b"\r", b"\n", b"\0", b"\xff\xfe", b"[rank1]:", b"\x1b[0m"]
        )
    path = tmp_path / "log"
    path.write_bytes(data)
    found = diagnose_log(read_logs([path], ["log"]))
    assert found.sentence
    assert all(line.startswith("log:") for line in found.evidence)


# Large logs, and lines that say nothing.

CHAIN = """Traceback (most recent call last):
  File "t.py", line 1, in f
KeyError: 1

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "t.py", line 2, in g
OSError: 2
"""


@pytest.mark.parametrize("seed", range(40))
def test_lines_that_are_read_once_because_they_say_nothing_change_no_fact(tmp_path, monkeypatch, seed):
    choose = random.Random(seed)
    lines = choose.choice(sorted(DATA.glob("*/*/log"))).read_text("utf-8").splitlines(keepends=True)
    dull = ["\n", "   \n", "x\n", "a line\n", "[E x\n", "frame #1\n", "  File x\n", "Failures:\n", CHAIN, *lines]
    for _ in range(200):
        lines.insert(choose.randrange(len(lines) + 1), choose.randrange(1, 4) * choose.choice(dull))
    once = read(tmp_path, "".join(lines))
    monkeypatch.setattr(log_file, "_MOST_DULL", 0)
    assert read(tmp_path, "".join(lines)) == once


LARGE = {
    "empty lines": "\n" * 200_000,
    "empty lines in a summary": "Failures:\n" + "\n" * 200_000,
    "two lines": "x\ny\n" * 100_000,
    "one line": "x" * 6_000_000,
    "a progress bar": "  5%|#    | 1/20\r" * 20_000,
}


@pytest.mark.parametrize("name", LARGE)
def test_the_error_after_much_that_says_nothing_is_found(tmp_path, name):
    text = LARGE[name]
    path = tmp_path / "log"
    path.write_text(text + f"\n{RAISED}", "utf-8", newline="")
    log = read_logs([path], ["log"])
    assert log.lines == text.count("\n") + 1 + RAISED.count("\n")
    assert diagnose_log(log).culprits == diagnose_log(read(tmp_path, RAISED)).culprits


def test_both_ends_of_a_long_line_are_read(tmp_path):
    long = "x" * 3_000_000
    log = read(tmp_path, f"step 1\n[rank1]: ValueError: {long}\n{long}\r[rank2]: KeyError: 3\r{long} NCCL WARN lost\n")
    assert [(str(fact.at)[:12], fact.rank) for fact in log.facts] == [
        ("log:2: Value", 1), ("log:3: KeyEr", 2), ("log:3: xxxxx", None),
    ]  # fmt: skip


def test_tracebacks_of_very_many_ranks_are_all_judged(tmp_path):
    text = "".join(
        f"[rank{rank}]: {line}\n"
        for rank in range(3_000)
        for line in ("Traceback (most recent call last):", '  File "/a/b.py", line 3, in f', f"ValueError: {rank}")
    )
    assert diagnose_log(read(tmp_path, text)).culprits == tuple(range(3_000))


# Ranks that say nothing.


def test_a_rank_whose_log_ends_without_a_word_is_named_but_not_called_dead(tmp_path):
    texts = {f"rank{rank}.log": of_rank(RAISED, rank) if rank != 1 else "step 1\n" for rank in range(3)}
    found = diagnose_log(read(tmp_path, texts))
    assert (found.fault, found.culprits) == ("absent", (1,))
    assert found.limits[0] == "The logs do not say whether it died or ended early."


def test_a_rank_that_is_behind_in_one_group_is_not_so_in_another(tmp_path):
    wait = (
        "[rank{rank}]:[E1127 08:29:13.933357436 ProcessGroupNCCL.cpp:689] [Rank {rank}] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=6, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=8000) ran for 8001 milliseconds "
        "before timing out.\n[rank{rank}]:[E1127 08:29:13.933518743 ProcessGroupNCCL.cpp:2303] [PG ID 1 PG GUID 7(TENSOR) "
        "Rank {rank}]  failure detected by watchdog at work sequence id: 6 PG status: last enqueued work: 6, last completed "
        "work: 5\n"
    )
    last = (
        "[rank{rank}]:[E1127 08:29:26.444486909 ProcessGroupNCCL.cpp:1914] [PG ID 0 PG GUID {group} Rank {rank}] Received a "
        "dump signal due to a collective timeout from  rank 0 and we will try our best to dump the debug info. Last enqueued "
        "NCCL work: {number}, last completed NCCL work: {number}.\n"
    )
    other = last.format(rank=2, group="0(default_pg)", number=3)  # which has its own numbers
    behind = last.format(rank=1, group="7(TENSOR)", number=5)
    text = wait.format(rank=0) + other + behind
    assert diagnose_log(read(tmp_path, text)).culprits == (1,)


def test_the_launchers_of_two_machines_number_their_ranks_anew(tmp_path):
    texts = {f"node{node}.log": RAISED for node in range(2)}
    for rank in range(3):  # the second machine has ranks 3 to 5, with the numbers 0 to 2
        texts["node1.log"] = texts["node1.log"].replace(f"rank      : {rank} (", f"rank      : {rank + 3} (")
        texts["node1.log"] = texts["node1.log"].replace(f"[rank{rank}]:", f"[rank{rank + 3}]:")
    texts["node0.log"] = "".join(line for line in RAISED.splitlines(keepends=True) if not line.startswith("[rank1]"))
    log = read(tmp_path, texts)
    assert sorted({fact.rank for fact in of(LoggedExit, log)}) == list(range(6))
    found = diagnose_log(log)
    assert found.culprits == (4,)
    assert "Ranks 0, 2, 3 and 5 failed because of that." in found.sentence


# What a file is.


def test_a_file_that_is_named_twice_is_read_once(tmp_path):
    (tmp_path / "log").write_text(RAISED)
    assert read_job([tmp_path, tmp_path / "log", tmp_path / "." / "log"]).log.files == ("log",)


def test_an_error_file_of_torchelastic_is_read(tmp_path):
    stack = 'Traceback (most recent call last):\n  File "/home/user/job/job.py", line 9, in main\n    raise KeyError(1)\nKeyError: 1\n'
    folder = tmp_path / "none_x/attempt_0/3"
    folder.mkdir(parents=True)
    values = {"message": {"message": "KeyError: 1", "extraInfo": {"py_callstack": stack, "timestamp": "1795768146"}}}
    (folder / "error.json").write_text(json.dumps(values))
    record = read_job(tmp_path)
    found = diagnose_log(record.log)
    assert (found.fault, found.culprits) == ("dead", (3,))
    assert found.sentence == "Rank 3 raised KeyError at job.py:9: 1"


def test_files_are_sorted_by_what_they_are(tmp_path):
    for name in ("trace_0", "trace_1", "log", "job.py"):
        (tmp_path / name).write_bytes((DATA / "nccl/behind" / name).read_bytes())
    (tmp_path / "trace_0").rename(tmp_path / "rank0.dump.log")
    record = read_job([tmp_path / "log", tmp_path / "rank0.dump.log", tmp_path / "trace_1", tmp_path / "job.py"])
    assert record.present == (0, 1)
    assert record.source == "Flight Recorder and 1 log"
    assert record.notes[-1] == "Files that are no records and no logs; left out: job.py."


# Tracebacks that ended no rank: a handler printed them, or they are of a thread.

FILE_FRONT = KEY.format(7, 0).partition("\n")[2]
LOGGED = {
    "logging": "ERROR:root:skipping a sample\n" + KEY.format(7, 0),
    "logging with a time": "2026-11-29 21:51:24,755 ERROR [r0] trainer: skipping a sample\n" + KEY.format(7, 0),
    "logging with a name": "2026-11-29 21:51:24,755 - trainer - ERROR - skipping a sample\n" + KEY.format(7, 0),
    "loguru": "2026-11-29 21:51:24.755 | ERROR    | __main__:<module>:9 - skipping a sample\n"
    'Traceback (most recent call last):\n\n> File "/home/user/train.py", line 7, in <module>\n    x[0]\n    └ {}\n\n'
    "KeyError: 0\n",
    "absl": "E1129 21:51:24.755123 140259 train.py:9] skipping a sample\n" + KEY.format(7, 0),
    "structlog": "2026-11-29 21:51:24 [error    ] skipping a sample              step=3\n" + KEY.format(7, 0),
    "transformers": "[ERROR|trainer.py:9] 2026-11-29 21:51:24,755 >> skipping a sample\n" + KEY.format(7, 0),
    "in the line of the logger": "2026-11-29 21:51:24 WARNING trainer: Traceback (most recent call last):\n" + FILE_FRONT,
}  # fmt: skip
LOST = "".join(
    f"[rank{{rank}}]: {line}\n"
    for line in (
        "Traceback (most recent call last):", '  File "/home/user/train.py", line 20, in <module>', "    dist.barrier()",
        "RuntimeError: [../gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:3",
    )
)  # fmt: skip
SKIPPED = "A traceback{} (KeyError at train.py:7) is in the log; nothing shows that it ended a rank."


@pytest.mark.parametrize("logger", LOGGED)
def test_a_traceback_of_a_logger_is_no_death_where_no_rank_failed(tmp_path, logger):
    found = diagnose_log(read(tmp_path, LOGGED[logger]))
    assert (found.fault, found.culprits) == ("quiet", ())
    assert found.sentence.startswith("No error that ended a rank is in ")
    assert found.limits[-1] == SKIPPED.format("")


@pytest.mark.parametrize("logger", LOGGED)
def test_what_a_logger_wrote_last_before_others_lost_their_connection_is_the_cause(tmp_path, logger):
    found = diagnose_log(read(tmp_path, {"rank0.log": LOST.format(rank=0), "rank1.log": LOGGED[logger]}))
    assert (found.fault, found.culprits) == ("dead", (1,))
    assert found.sentence == "Rank 1 raised KeyError at train.py:7: 0. Rank 0 failed because of that."


@pytest.mark.parametrize("logger", LOGGED)
def test_a_rank_that_logged_a_traceback_and_went_on_is_not_the_one_that_died(tmp_path, logger):
    later = KEY.format(30, "'state'").replace("KeyError", "IndexError")
    texts = {"rank0.log": LOGGED[logger] + "step 4\n", "rank1.log": LOGGED[logger] + "step 4\n" + later}
    for rank in (0, 1):
        assert of(LoggedError, read(tmp_path, texts))[rank].by_logger
    texts["rank0.log"] += LOST.format(rank=0)
    found = diagnose_log(read(tmp_path, texts))
    assert (found.fault, found.culprits) == ("dead", (1,))
    assert found.sentence == "Rank 1 raised IndexError at train.py:30: 'state'. Rank 0 failed because of that."


def test_a_traceback_that_one_rank_survived_did_not_end_another_one(tmp_path):
    texts = {f"rank{rank}.log": KEY.format(7, 0) for rank in range(2)}
    texts["rank0.log"] += LOST.format(rank=0)
    found = diagnose_log(read(tmp_path, texts))
    assert (found.fault, found.culprits) == ("absent", (1,))
    assert found.limits[-1] == SKIPPED.format(" of ranks 0 and 1")


SUMMARY = (DATA / "logs/handled_killed/log").read_text("utf-8").partition("Failures:")[2]  # rank 1: SIGKILL


def ends(status):
    """What torchrun says of a job in which rank 1 failed first, with this status."""
    assert "exitcode  : -9 (pid" in SUMMARY
    return f"Failures:{SUMMARY}".replace("exitcode  : -9 (pid", f"exitcode  : {status} (pid")


def test_an_exit_counts_more_than_a_traceback_after_which_its_rank_went_on(tmp_path):
    text = LOGGED["logging with a time"] + "2026-11-29 21:51:24,800 INFO [r0] trainer: step 4\n"
    logged = "".join(f"[default1]:{line}\n" for line in text.splitlines())
    assert diagnose_log(read(tmp_path, logged + ends(-9))).sentence == "Rank 1 was killed by SIGKILL."
    found = diagnose_log(read(tmp_path, logged + ends(3)))
    assert found.culprits == (1,)
    assert found.sentence == (
        "Rank 1 exited with status 3. Before that, its script caught an exception at train.py:7: KeyError: 0"
    )
    assert found.limits[0] == "It printed more after that, so its exit may have another reason."


def test_a_traceback_that_a_rank_logged_as_its_last_word_explains_its_exit(tmp_path):
    logged = "".join(f"[default1]:{line}\n" for line in LOGGED["logging"].splitlines())
    assert diagnose_log(read(tmp_path, logged + ends(1))).sentence == "Rank 1 raised KeyError at train.py:7: 0"
    assert diagnose_log(read(tmp_path, logged + ends(-9))).sentence == "Rank 1 was killed by SIGKILL."


def test_a_traceback_before_a_job_was_stopped_ended_no_rank_if_the_launcher_saw_none_end(tmp_path):
    stop = (
        "WARNING:torch.distributed.elastic.agent.server.api:Received Signals.SIGTERM death signal, shutting down workers\n"
        "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 17 closing signal SIGTERM\n"
    )  # of torch 1.9
    found = diagnose_log(read(tmp_path, KEY.format(7, 0) + stop))
    assert (found.fault, found.culprits) == ("stopped", ())
    assert found.sentence == (
        "The job was stopped from outside: the launcher received SIGTERM. Before that, no rank wrote an error that ended it."
    )
    first, second = stop.splitlines(keepends=True)
    assert diagnose_log(read(tmp_path, KEY.format(7, 0) + second + first)).fault == "dead"


BESIDE = (
    "Exception in thread uploader:", "Exception in thread Thread-3 (_pin_memory_loop):",
    "Exception ignored in: <function Pool.__del__ at 0x7f>",
    "ERROR:asyncio:Task exception was never retrieved\nfuture: <Task finished name='Task-1' exception=KeyError(0)>",
    "--- Logging error ---",
)  # fmt: skip


@pytest.mark.parametrize("head", BESIDE)
def test_what_ends_a_thread_or_a_callback_ends_no_rank(tmp_path, head):
    text = f"{head}\n{KEY.format(7, 0)}"
    found = diagnose_log(read(tmp_path, {"rank0.log": "step 1\n", "rank1.log": text}))
    assert (found.fault, found.culprits) == ("quiet", ())
    assert found.limits[-1] == "KeyError at train.py:7 ended a thread or a callback of rank 1, and not the rank: 0"
    found = diagnose_log(read(tmp_path, {"rank0.log": LOST.format(rank=0), "rank1.log": text}))
    assert (found.fault, found.culprits) == ("absent", (1,))


# What the workers of a DataLoader raise.

WORKER = "".join(
    f"[rank{{rank}}]: {line}\n"
    for line in (
        "Traceback (most recent call last):", '  File "/home/user/train.py", line 20, in <module>', "    dist.barrier()",
        "RuntimeError: DataLoader worker (pid 17) is killed by signal: {signal}. ",
    )
)  # fmt: skip
BARE = "[rank{rank}]: RuntimeError: [../gloo/pair.cc:537] Read error [127.0.0.1]:1: Connection reset by peer.\n\n"
HANDLING = "[rank{rank}]: During handling of the above exception, another exception occurred:\n\n"


def test_workers_that_sigterm_ended_show_that_the_job_was_stopped(tmp_path):
    found = diagnose_log(read(tmp_path, "".join(WORKER.format(rank=rank, signal="Terminated") for rank in range(2))))
    assert (found.fault, found.culprits) == ("stopped", ())
    assert found.sentence == "The job was stopped by SIGTERM. Before that, no rank wrote an error."
    assert found.limits[1].startswith("The logs do not say who sent it")
    assert [position.ranks for position in found.positions] == [(0, 1)]


def test_a_lost_connection_without_a_traceback_counts_more_than_the_worker_that_ended_meanwhile(tmp_path):
    texts = {"rank1.log": "step 1\n"}
    for rank in (0, 2):
        texts[f"rank{rank}.log"] = (BARE + HANDLING + WORKER).format(rank=rank, signal="Terminated")
    found = diagnose_log(read(tmp_path, texts))
    assert (found.fault, found.culprits) == ("absent", (1,))
    assert found.sentence == (
        "Ranks 0 and 2 lost the connection to another rank in a communication at train.py:20. Rank 1 wrote no error."
    )


@pytest.mark.parametrize(("signal", "says"), [("Killed", "SIGKILL"), ("Bus error", "SIGBUS")])
def test_a_worker_that_was_killed_is_a_cause_unless_the_job_was_being_stopped(tmp_path, signal, says):
    worker = WORKER.format(rank=1, signal=signal)
    found = diagnose_log(read(tmp_path, worker + LOST.format(rank=0)))
    assert (found.fault, found.culprits) == ("dead", (1,))
    assert found.sentence.startswith(f"A DataLoader worker of rank 1 was killed by {says}, which the rank noticed at")
    stop = "slurmstepd: error: *** JOB 17 ON node1 CANCELLED AT 2026-11-27T08:00:00 DUE TO TIME LIMIT ***\n"
    found = diagnose_log(read(tmp_path, stop + worker + LOST.format(rank=0)))
    assert (found.fault, found.sentence) == (
        "stopped",
        "The job was stopped by Slurm. Before that, no rank wrote an error.",
    )


def test_what_slurm_cancels_because_a_task_failed_was_not_stopped_from_outside(tmp_path):
    text = (
        "srun: error: node1: task 1: Exited with exit code 1\n"
        "slurmstepd: error: *** STEP 17.0 ON node1 CANCELLED AT 2026-11-27T08:00:00 ***\n"
    )
    late = "".join(f"[rank1]: {line}\n" for line in KEY.format(7, 0).splitlines())
    found = diagnose_log(read(tmp_path, text + late))
    assert (found.fault, found.culprits) == ("dead", (1,))
    assert found.sentence == "Rank 1 raised KeyError at train.py:7: 0"
