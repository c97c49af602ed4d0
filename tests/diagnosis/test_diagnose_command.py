"""`ddpquiz diagnose` on what ranks left behind: dumps, a saved run, and nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import passed
import pytest
from flight_dumps import recorded

from ddpquiz.events.event import (
    Began,
    End,
    Ended,
    Exited,
    Issued,
    ModelWrapped,
    OptimizerStep,
    Started,
    WeightSample,
    encode,
)
from ddpquiz.events.operation import Operation

pytestmark = passed.COMMANDS


def run(*words):
    return subprocess.run(
        [sys.executable, "-m", "ddpquiz", "diagnose", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"COLUMNS": "80"},
    )


@pytest.fixture
def dumps(tmp_path):
    folder = tmp_path / "dumps"
    folder.mkdir()
    for path in recorded("missing"):
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def test_the_verdict_on_dumps_names_the_rank_and_the_line(dumps):
    ran = run(dumps)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("A rank is late\n")
    assert "ranks 0 and 2 wait in all_reduce at train.py:" in " ".join(ran.stdout.lower().split())
    assert "From Flight Recorder: 3 of 3 ranks." in ran.stdout


def test_the_verdict_is_printed_as_json(dumps):
    ran = run(dumps, "--json")
    found = json.loads(ran.stdout)
    assert (found["event"], found["fault"], found["culprits"], found["present"]) == ("verdict", "late", [1], [0, 1, 2])


def test_a_dump_that_is_missing_is_named_with_what_stays_open(dumps):
    (dumps / "trace_1").unlink()
    ran = run(dumps)
    assert ran.stdout.startswith("A rank left no record\n")
    assert "it died, it was busy and so noticed nothing, or its file was not collected" in " ".join(ran.stdout.split())
    assert "2 of 3 ranks; nothing of rank 1" in ran.stdout


def test_advice_of_the_summary_names_the_file(tmp_path):
    events = [Began("train.py", (), 2, "cpu", "gloo", ""), *(Started(0.0, rank, 1) for rank in range(2))]
    events += [
        kind(at, rank, 15)
        for at, kind in ((1.0, ModelWrapped), (2.0, OptimizerStep), (3.0, OptimizerStep))
        for rank in range(2)
    ]
    path = tmp_path / "run.json"
    path.write_text("".join(encode(event) + "\n" for event in [*events, End(4.0, True, 0, 0, None, "", "")]))
    assert "train.py:15: the optimizer made 2 steps" in " ".join(run(path, "--summary").stdout.split())


def test_a_saved_run_is_judged_too(tmp_path):
    calls = [Operation("all_reduce", (0, 1), None, ((size,),), "float32", 4 * size, "train.py", 3) for size in (2, 5)]
    events = [Began("train.py", (), 2, "cpu", "gloo", "")]
    events += [Issued(1.0, rank, 1, call) for rank, call in enumerate(calls)]
    path = tmp_path / "run.json"
    path.write_text("".join(f"{encode(event)}\n" for event in [*events, End(2.0, False, 0, 0)]))
    ran = run(path)
    assert ran.stdout.startswith("Mismatched calls\n")
    assert "From a saved run: 2 of 2 ranks." in ran.stdout


@pytest.mark.parametrize(
    ("sums", "unsure"),
    [
        ([], "Only the calls were compared, not the values in them: weights, losses and data may be wrong."),
        (
            ["1f", "1f"],
            "Of all values, only weights of replicas were compared, at some steps: losses and data may be wrong.",
        ),
        (["1f"], "Only the calls were compared, not the values in them: weights, losses and data may be wrong."),
    ],
    ids=["no weights", "weights of all ranks", "weights of one rank"],
)
def test_where_no_fault_is_found_it_is_said_what_was_not_compared(tmp_path, sums, unsure):
    call = Operation("all_reduce", (0, 1), None, ((2,),), "float32", 8, "train.py", 3)
    events = [Began("train.py", (), 2, "cpu", "gloo", ""), *(Started(0.0, rank, 1) for rank in range(2))]
    events += [Issued(1.0, rank, 1, call) for rank in range(2)] + [Ended(1.5, rank, 1) for rank in range(2)]
    events += [WeightSample(2.0, rank, 5, 1, checksum) for rank, checksum in enumerate(sums)]
    events += [Exited(3.0, rank, 0) for rank in range(2)]
    path = tmp_path / "run.json"
    path.write_text("".join(encode(event) + "\n" for event in [*events, End(4.0, True, 0, 0, None, "", "")]))
    found = json.loads(run(path, "--json").stdout)
    assert (found["fault"], found["limits"]) == ("none", [unsure])


SPIED = """\
Process 9: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 9 (active): "MainThread"
    load (train.py:3)
    <module> (train.py:9)
"""


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("job.log", "[rank2]: ValueError: bad batch\n", "job.log"),
        ("rank2.txt", SPIED, "A file with stacks"),
    ],
    ids=["log", "stacks"],
)
def test_files_that_name_a_rank_that_the_record_does_not_have_are_refused_in_a_sentence(tmp_path, name, text, what):
    events = [Began("train.py", (), 2, "cpu", "gloo", ""), *(Started(0.0, rank, 1) for rank in range(2))]
    path = tmp_path / "run.json"
    path.write_text("".join(encode(event) + "\n" for event in [*events, End(4.0, True, 0, 0, None, "", "")]))
    (tmp_path / name).write_text(text)
    ran = run(path, tmp_path / name)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert " ".join(ran.stderr.split()) == (
        f"{what} names rank 2, but the record is of 2 ranks: they are not of one job. Name only files of the same job."
    )


def test_a_verdict_is_saved_as_a_page_with_the_job(dumps, tmp_path):
    ran = run(dumps, "--save", tmp_path / "job.html")
    assert (ran.returncode, ran.stderr) == (0, f"Saved {tmp_path / 'job.html'}.\n")
    assert ran.stdout.startswith("A rank is late\n")
    page = (tmp_path / "job.html").read_text("utf-8")
    assert '"title":"A rank is late"' in page
    assert '"reason":"as PyTorch\'s Flight Recorder dumps say"' in page
    assert run(dumps, "--save", tmp_path / "job.png").returncode == 2


LOG = Path(__file__).parents[1] / "data/logs/raised/log"


def test_a_plain_log_and_a_folder_are_read_together(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/rank3.log").write_text("step 1\n")
    ran = run(LOG, tmp_path / "logs", "--json")
    found = json.loads(ran.stdout)
    assert (found["fault"], found["culprits"], found["ranks"], found["present"]) == ("dead", [1], 4, [0, 1, 2, 3])
    assert (found["evidence"], found["source"]) == (["log:4: ValueError: bad batch in shard 17"], "2 logs")


def test_the_verdict_on_a_log_quotes_its_lines(tmp_path):
    ran = run(LOG, "--step", "--summary")
    assert ran.stdout.startswith("A rank is dead\nRank 1 raised ValueError at job.py:12: bad batch in shard 17.")
    assert "What this rests on\n  • log:4: ValueError: bad batch in shard 17\n\nFrom 1 log.\n" in ran.stdout
    assert run(LOG, "--save", tmp_path / "job.html").returncode == 0
    assert "log:4: ValueError" in (tmp_path / "job.html").read_text("utf-8")


def test_a_log_is_not_saved_as_a_run(tmp_path):
    """Whoever diagnosed that run would read that it has no fault."""
    ran = run(LOG, "--save", tmp_path / "job.json")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "Save the verdict as a page (.html), or use --json." in ran.stderr
    assert not (tmp_path / "job.json").exists()


MISTAKES = {
    "empty": "empty holds no records, it is empty. Name rank-N.jsonl of `ddpquiz.record`",
    "none": "There is no file or folder",
    "pipe": "pipe is a pipe or a device, which cannot be read twice.",
    "text/notes.md": "notes.md",
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_cannot_be_read_is_said_in_a_sentence(tmp_path, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").mkdir()
    (tmp_path / "text/notes.md").write_text("hello")
    os.mkfifo(tmp_path / "pipe")
    ran = run(tmp_path / name)
    assert ran.returncode == 1
    assert MISTAKES[name] in ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 1
