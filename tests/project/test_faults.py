"""The suite of faults: its truth fits its scripts, and a text is scored by what it says."""

import ast
import subprocess
import sys

import pytest
import yaml
from places import ROOT

sys.path.append(str(ROOT / "benchmarks" / "faults"))
import score as suite

GIVEN = yaml.safe_load((suite.HERE / "truth.yaml").read_text("utf-8"))
TRUTH = suite.load_truth()
SCRIPTS = {path.stem: path.read_text("utf-8") for path in suite.SCRIPTS.glob("*.py")}
FAULTS = {name: truth for name, truth in TRUTH.items() if not truth.is_innocent}
ORDER = TRUTH["order_swapped"]  # rank 1 of three, at lines 12 to 15


def test_each_script_has_a_truth():
    assert {*GIVEN} == {*SCRIPTS}
    assert len(FAULTS) >= 60
    assert len(TRUTH) - len(FAULTS) >= 25


@pytest.mark.parametrize("name", GIVEN)
def test_the_truth_fits_the_script(name):
    given, truth, lines = GIVEN[name], TRUTH[name], SCRIPTS[name].splitlines()
    assert ast.get_docstring(ast.parse(SCRIPTS[name])) == lines[0].strip('"'), "score.py leaves out the first line only"
    assert truth.nproc in (2, 3, 4)
    assert {*truth.ranks} < {*range(truth.nproc)}
    for number, text in given.get("lines", {}).items():
        assert lines[number - 1].strip() == text
    if truth.is_innocent:
        assert {*given} == {"kind", "twin", "nproc"}
        assert given["kind"] == "innocent"
        assert given["twin"] in FAULTS
    else:
        assert truth.lines
        assert truth.ends in ("hang", "error", "done")
        assert given["kind"] != "innocent"
        assert not suite.score(truth, "").cause


@pytest.mark.parametrize(
    ("said", "described"),
    [
        ("Rank 1 called broadcast at train.py:12 where ranks 0 and 2 called all_reduce at train.py:15.", "right"),
        ('In another order on ranks 0-2:\n  File "train.py", line 14, in <module>', "right"),
        ("Calls in another order at train.py:12", "cause"),  # which rank?
        ("Rank 1 waits at train.py:12, and it is not known why.", "place and unsure"),
        ("Rank 1 waits at other.py:12", "neither cause nor place"),
        ("rank 1 and train.py:12: another order\ndone in 0.3 s", "cause and place; FALSE: done in 0"),
        ("No fault found.", "neither cause nor place; FALSE: No fault found"),
        ("Rank 0 is late", "neither cause nor place; FALSE: Rank 0 is late"),
        ("Root Cause (first observed failure):\n[0]:\n  rank      : 2 (local_rank: 2)",
         "neither cause nor place; FALSE: root cause: rank 2"),
        ("", "neither cause nor place"),
    ],
)  # fmt: skip
def test_a_text_is_scored_by_what_it_says_of_a_fault(said, described):
    assert suite.describe(suite.score(ORDER, said)) == described


@pytest.mark.parametrize(
    ("said", "status", "described"),
    [
        ("done in 0.3 s", 0, "right"),
        ("done in 0.3 s", 1, "neither cause nor place; FALSE: status 1"),
        ("Rank 1 did not call all_reduce", 0, "neither cause nor place; FALSE: did not call"),
    ],
)
def test_an_alarm_on_a_script_without_a_fault_is_false(said, status, described):
    assert suite.describe(suite.score(TRUTH["in_order"], said, status)) == described


def test_done_is_true_of_a_job_that_was_done():
    silent = next(truth for truth in FAULTS.values() if truth.ends == "done" and not truth.never)
    assert not suite.score(silent, "done in 0.3 s").false


def test_any_tool_can_be_scored_and_reads_no_answer(tmp_path):
    """The tool is cat: it prints the script as a tool finds it."""
    keep = tmp_path / "kept"
    command = [sys.executable, str(suite.HERE / "score.py"), "--no-torch", "--only", "order_swapped"]
    ran = subprocess.run(
        [*command, "--tool", "cat {script}", "--keep", keep], capture_output=True, text=True, check=True
    )
    assert "| all faults | 1 | 0 | 0 | 0 | 0 | 0 |" in ran.stdout
    below = SCRIPTS["order_swapped"].partition("\n")[2]
    assert (keep / "order_swapped.tool").read_text("utf-8") == f"0\n\n{below}"
    again = subprocess.run([*command, "--said", keep], capture_output=True, text=True, check=True)
    assert "| all faults | 1 | 0 | 0 | 0 | 0 | 0 |" in again.stdout
