"""Stacks as py-spy, faulthandler and torch's debug server write them; those in tests/data are of one real job.

Its rank 1 sleeps in load_batch, while ranks 0 and 2 wait for it in all_reduce.
"""

import json
import shutil
from pathlib import Path

import pytest

from ddpquiz.diagnosis.job_diagnosis import diagnose_job
from ddpquiz.errors import UserError
from ddpquiz.events.run_state import RunState
from ddpquiz.jobs.job_reader import read_job
from ddpquiz.jobs.stacks import LocalRank, parse_py_spy, stacks_as_json

DATA = Path(__file__).parents[1] / "data/stacks"
TOLD = "Ranks 0 and 2 are in all_reduce at train.py:22. Rank 1 is not there: it is in load_batch at train.py:16."


def judge(*paths):
    record = read_job([*paths])
    return record, diagnose_job(record, RunState.after(record.events))


@pytest.mark.parametrize("form", ["faulthandler", "py_spy", "py_spy_json", "served"])
def test_each_form_of_stacks_tells_the_rank_that_is_missing(form):
    record, found = judge(DATA / form)
    assert (found.fault, found.culprits, found.sentence) == ("late", (1,), TOLD)
    assert (record.ranks, record.present, found.positions[1].line) == (3, (0, 1, 2), 16)


def test_evidence_names_the_file_and_the_line_of_a_stack():
    assert judge(DATA / "py_spy")[1].evidence[0] == "spy_1.txt:4: rank 1 in load_batch at train.py:16"
    assert judge(DATA / "faulthandler")[1].evidence[0] == "train.log:14: rank 1 in load_batch at train.py:16"


def test_several_dumps_are_looks_at_the_same_ranks_whoever_took_them():
    """Two each of py-spy and of faulthandler; they shorten the names of files and functions differently."""
    (limit,) = judge(DATA / "served")[1].limits
    assert limit == "All stood in the same place in each look; a long step does so, too."


def test_another_place_in_a_later_look_shows_that_the_rank_moves(tmp_path):
    shutil.copytree(DATA / "py_spy", tmp_path / "first")
    shutil.copytree(DATA / "py_spy", tmp_path / "second")
    later = tmp_path / "second/spy_0.txt"
    later.write_text(later.read_text().replace("train.py:22", "train.py:21"))
    found = judge(tmp_path)[1]
    assert (found.fault, found.sentence) == ("quiet", "The job moves: rank 0 stood in different places in two looks.")


def test_files_that_name_no_rank_are_numbered_and_the_verdict_says_so(tmp_path):
    for rank, name in enumerate("cab"):
        shutil.copy(DATA / f"py_spy/spy_{rank}.txt", tmp_path / f"{name}.txt")
    found = judge(tmp_path)[1]
    assert found.culprits == (0,)
    assert found.limits[-1] == "The files do not name ranks; they are numbered in the order in which they were read."


def test_a_number_in_a_name_that_is_the_process_is_no_rank(tmp_path):
    for rank, pid in enumerate((57, 58, 59)):
        text = (DATA / f"py_spy/spy_{rank}.txt").read_text()
        first = text.partition(":")[0]
        (tmp_path / f"dump_{pid}.txt").write_text(text.replace(first.split()[1], str(pid)))
    assert judge(tmp_path)[1].culprits == (1,)


def test_what_a_rank_started_does_not_count(tmp_path):
    """py-spy --subprocesses also shows the workers of its DataLoader."""
    shutil.copytree(DATA / "py_spy", tmp_path / "dumps")
    rank = tmp_path / "dumps/spy_0.txt"
    worker = (
        'Process 9: python train.py\nPython v3.11.7 (python)\n\nThread 9 (idle): "MainThread"\n    poll (train.py:1)\n'
    )
    rank.write_text(rank.read_text() + worker)
    assert judge(tmp_path)[1].sentence == TOLD


def test_the_main_thread_of_a_module_is_found_among_the_threads_of_a_recorded_rank(tmp_path):
    """faulthandler lists the newest thread first, and `-m ddpquiz.record` is run by runpy."""
    inside = "/venv/lib/python3.11/site-packages/ddpquiz/ranks/inside"
    threading = "/usr/lib/python3.11/threading.py"
    script = tmp_path / "train.py"
    script.write_text("\n\nwork.wait()\nx = load()\n")
    for rank, line in enumerate((3, 4, 3)):
        wrapper = f'  File "{inside}/recorder.py", line 203 in wait\n' if line == 3 else ""
        (tmp_path / f"rank{rank}.txt").write_text(
            "Thread 0x00007f0000000002 (most recent call first):\n"
            f'  File "{inside}/rank_writer.py", line 240 in _show_that_it_lives\n'
            f'  File "{threading}", line 1002 in _bootstrap\n\n'
            f"Thread 0x00007f0000000001 (most recent call first):\n{wrapper}"
            f'  File "{script}", line {line} in <module>\n'
            f'  File "{inside}/job_recorder.py", line 195 in _run_as_main\n'
            '  File "<frozen runpy>", line 198 in _run_module_as_main\n'
        )
    found = judge(*sorted(tmp_path.glob("rank*.txt")))[1]
    assert (found.fault, found.culprits) == ("late", (1,))
    assert found.sentence == (
        "Ranks 0 and 2 are in `work.wait()` at train.py:3. Rank 1 is not there: it is in the script at train.py:4."
    )


def test_a_crash_that_faulthandler_wrote_is_the_end_of_a_rank_and_no_look_at_it():
    record, found = judge(DATA.parent / "logs/segfault")
    assert record.stacks is None
    assert found.fault == "dead"


def test_a_log_that_shows_no_error_and_stacks_make_one_verdict(tmp_path):
    (tmp_path / "train.log").write_text("step 1\nstep 2\n")
    shutil.copytree(DATA / "py_spy", tmp_path / "dumps")
    record, found = judge(tmp_path)
    assert (found.culprits, found.sentence) == ((1,), TOLD)
    assert record.source == "1 log and 3 files with stacks"


def test_the_stack_of_the_rank_that_a_log_blames_is_told_with_it(tmp_path):
    late = DATA.parent / "nccl/slow_data/log"
    (tmp_path / "train.log").write_text(late.read_text("utf-8"), "utf-8")
    culprit = judge(late)[1].culprits[0]
    (tmp_path / f"rank{culprit}.txt").write_text((DATA / "py_spy/spy_1.txt").read_text())
    found = judge(tmp_path)[1]
    assert found.culprits == (culprit,)
    assert found.sentence.endswith(f" The stack of rank {culprit} is in load_batch at train.py:16.")
    assert found.evidence[0] == f"rank{culprit}.txt:4: rank {culprit} in load_batch at train.py:16"


def where(host, job="run localhost 1", ranks=4, **stacks):
    """What `ddpquiz where --json` prints on a machine; `stacks` are the processes by rank."""
    found = [
        LocalRank(int(rank[1:]), pid, tuple(map(tuple, parse_py_spy(text).popitem()[1])), False, on_gpu=False)
        for rank, (pid, text) in stacks.items()
    ]
    return json.dumps(stacks_as_json(job, ranks, host, 1.0, found)) + "\n"


IN_CALL, LOADING = ((DATA / f"py_spy_json/spy_{rank}.json").read_text() for rank in (0, 1))


def test_the_files_of_several_machines_are_merged(tmp_path):
    (tmp_path / "node0.json").write_text(where("node0", r0=(1, IN_CALL), r1=(2, IN_CALL)))
    found = judge(tmp_path)[1]
    assert (found.fault, found.culprits) == ("absent", (2, 3))
    assert "run `ddpquiz where --json > node1.json` on each of them" in found.advice
    (tmp_path / "node1.json").write_text(where("node1", r2=(1, IN_CALL), r3=(2, LOADING)))
    record, found = judge(tmp_path)
    assert (record.ranks, found.fault, found.culprits) == (4, "late", (3,))
    assert found.evidence[0] == "node1.json:1: rank 3 in load_batch at train.py:16"


def test_stacks_of_two_jobs_are_not_mixed(tmp_path):
    file = tmp_path / "node0.json"
    file.write_text(where("node0", job="a", r0=(1, IN_CALL)) + where("node0", job="b", r0=(2, LOADING)))
    with pytest.raises(UserError, match=r"These are stacks of 2 jobs: a, b\. Name those of one"):
        read_job(file)


def test_a_damaged_line_is_named(tmp_path):
    file = tmp_path / "node0.json"
    file.write_text(where("node0", r0=(1, IN_CALL)) + where("node0", r1=(1, IN_CALL))[:100])
    with pytest.raises(UserError, match=r"node0\.json:2 is damaged"):
        read_job(file)
