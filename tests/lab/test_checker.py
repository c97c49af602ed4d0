"""The check of a learner's file: what is said of files that are wrong in every way, and nothing that stays behind."""

import io
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console, Group

from ddpquiz.curriculum.lab import LabRun
from ddpquiz.curriculum.labs import load_lab
from ddpquiz.events.event import RankStack
from ddpquiz.lab import lab_pages
from ddpquiz.lab.checker import Stopped, check_solution, command, compare, planned
from ddpquiz.lab.verdict import LabFigure, LabVerdict
from ddpquiz.paths import own_labs_dir

RING = replace(load_lab("ring-all-reduce"), runs=(LabRun(2, (1,)),), seconds=3)
HEAD = "import os, sys, time\nimport torch.distributed as dist\ndef all_reduce(x):\n"


def checked(folder, body, lab=RING):
    file = folder / "ring_all_reduce.py"
    file.write_text(HEAD + "".join(f"    {line}\n" for line in body.splitlines()))
    return check_solution(lab, file, fresh=9)


@pytest.mark.parametrize(
    ("body", "outcome", "sentence"),
    [
        ("while True:\n    pass", "no end", "The ranks were still computing after 3 s, the limit of one run."),
        ("os._exit(0)", "no end", "Rank 0 exited before the check was over."),
        ("if dist.get_rank() == 1:\n    os._exit(3)\ndist.barrier()", "error", "Rank 1 exited with status 3"),
        ("sys.exit(0)", "no end", "exited before the check was over"),
        ("while True:\n    sys.stdout.write('x' * 1_000_000)", "no end", "The ranks print too much"),
        ("while True:\n    print('x')", "no end", "The ranks print too much"),
        ("return 1 / 0", "error", "raised ZeroDivisionError in line 4: division by zero."),
        ("dist.recv(x, 1 - dist.get_rank())", "hang", "wait for each other"),
        ("return x", "claim", "On rank 0 of 2, element 0 of 8 of `x` is "),
        ("raise NotImplementedError('the sum')", "unwritten", "Line 4 is still to be written: the sum."),
        ("x += 'a'", "error", "raised TypeError in line 4"),
        (
            "if dist.get_rank():\n    dist.recv(x[:3], 0)\nelse:\n    dist.send(x[:4], 1)\ndist.barrier()", "error",
            "Rank 0 sends 4 numbers in line 7, but rank 1 receives 3 numbers in line 5.",
        ),
        (
            "import torch\nx = torch.zeros(2 + dist.get_rank())\ndist.all_gather([x.clone(), x.clone()], x)\ndist.barrier()",
            "error",
            "Rank 1 called all_gather of 3 float32 at ring_all_reduce.py:6, but rank 0 called all_gather of 2 float32 at",
        ),
        ("dist.all_reduce(x)", "budget", "Rank 0: 1 collective called (all_reduce in line 4); none is allowed."),
    ],
    ids=["loop", "exit 0", "exit 3", "sys.exit", "endless line", "lines", "raises", "hangs", "wrong", "unwritten", "type", "sizes", "gathered sizes", "budget"],
)  # fmt: skip
def test_a_wrong_file_gets_a_sentence_that_says_where_it_is_wrong(tmp_path, body, outcome, sentence):
    verdict = checked(tmp_path, body)
    assert verdict.outcome == outcome, verdict.sentence
    assert sentence in verdict.sentence
    if outcome in ("claim", "error", "unwritten"):
        assert verdict.repeat.endswith("ring_all_reduce.py --seed 1") or verdict.seed == 9
    else:  # torchrun would not show it
        assert verdict.repeat == f"ddpquiz lab ring-all-reduce --check --dir {tmp_path}"
    if outcome in ("claim", "budget", "hang"):
        assert set(verdict.values or {each.rank for each in verdict.waits}) == {0, 1}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def all_reduce(x)\n    pass\n", "Line 1 of ring_all_reduce.py is not valid Python: expected ':'."),
        ("def reduce(x):\n    pass\n", "ring_all_reduce.py does not define `all_reduce`, which the check calls."),
        ("def all_reduce():\n    pass\n", "all_reduce() takes 0 positional arguments but 1 was given."),
        ("import nothing_of_this_name\n", "raised ModuleNotFoundError in line 1"),
        (None, "There is no file"),
    ],
    ids=["syntax", "name", "signature", "import", "deleted"],
)
def test_a_file_that_cannot_be_called_gets_a_sentence(tmp_path, text, sentence):
    file = tmp_path / "ring_all_reduce.py"
    if text is not None:
        file.write_text(text)
    verdict = check_solution(RING, file)
    assert (verdict.outcome, sentence in verdict.sentence) == ("error", True), verdict.sentence


@pytest.mark.parametrize("lab", ["ring-all-reduce", "restart-from-checkpoint"])
def test_no_temporary_file_stays_behind_not_even_of_a_check_that_restarts_ranks(tmp_path, monkeypatch, lab):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    lab = load_lab(lab)
    file = tmp_path / lab.file_name
    file.write_text(f"import tempfile\ntempfile.mkdtemp()\n{lab.solution.starter}")
    assert not check_solution(lab, file, fresh=9).passed
    assert list(temporary.iterdir()) == []


def test_no_process_stays_behind_that_a_file_has_started(tmp_path):
    pids = tmp_path / "pids"
    body = f"""for _ in range(25):
    if os.fork() == 0:
        open({str(pids)!r}, 'a').write(f'{{os.getpid()}}\\n')
        time.sleep(1000)
while open({str(pids)!r}).read().count('\\n') < 50:
    time.sleep(0.02)
1 / 0"""
    assert "ZeroDivisionError" in checked(tmp_path, body, replace(RING, seconds=30)).sentence
    started = [int(line) for line in pids.read_text().splitlines()]
    assert len(started) >= 50
    assert [pid for pid in started if _lives(pid)] == []


def _lives(pid):
    until = time.monotonic() + 5
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return False
        except FileNotFoundError:
            return False
        time.sleep(0.05)
    return True


def test_a_solution_passes_with_stars_and_figures_beside_those_of_the_reference(tmp_path):
    file = tmp_path / "ring_all_reduce.py"
    file.write_text(RING.solution.source)
    verdict = check_solution(RING, file, fresh=9)
    assert (verdict.passed, verdict.stars, verdict.run) == (True, ("fewest bytes",), LabRun(2, (1, 9)))
    figures = {each.name: (each.yours, each.reference) for each in compare(RING, verdict)}
    assert figures["longest chain of messages"] == (2, 2)
    assert figures["sent"][0] == figures["sent"][1] > 0


def test_figures_are_named_with_their_units_one_in_the_singular():
    passed = LabVerdict(outcome="passed", seconds=1, runs=1, ranks=2)
    figures = [LabFigure("longest chain of messages", "rounds", 1.0, 2.0), LabFigure("sent", "bytes", 1200.0, 1.0)]
    figures.append(LabFigure("collectives", "calls", 0.0, 0.0))
    console = Console(width=100, file=io.StringIO())
    console.print(Group(*lab_pages.verdict(RING, Path("x.py"), passed, figures)))
    assert "What the busiest of 2 ranks did in the last run, in all of its cases together" in console.file.getvalue()
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    assert ["longest", "chain", "of", "messages", "1", "round", "2", "rounds"] in lines
    assert ["sent", "1,200", "bytes", "1", "byte"] in lines
    assert not any("collectives" in line for line in lines)  # what neither does is no comparison


def test_what_ranks_found_alike_is_said_once():
    found = LabVerdict(
        outcome="claim", seconds=1.0, runs=1, sentence="On rank 0 of 4, x is 1. This must hold: x is 2.",
        values={0: "x is 1", 1: "as expected", 2: "x is 1", 3: "x is 3"},
    )  # fmt: skip
    console = Console(width=100, file=io.StringIO())
    console.print(Group(*lab_pages.verdict(RING, Path("x.py"), found)))
    lines = [line.split("  ") for line in console.file.getvalue().splitlines()]
    assert [[word.strip() for word in words if word.strip()] for words in lines if words[0].startswith("rank")] == [
        ["ranks 0 and 2", "as above"],
        ["rank 1", "as expected"],
        ["rank 3", "x is 3"],
    ]


def test_ranks_that_wait_at_the_same_line_are_listed_once():
    file = Path("x.py")
    at = [("all_reduce", 5), ("", 7), ("all_reduce", 5), ("", 0)]
    waits = tuple(RankStack(rank, name, str(file.absolute()), line, "") for rank, (name, line) in enumerate(at))
    found = LabVerdict(outcome="hang", seconds=1.0, runs=1, sentence="The ranks wait.", waits=waits)
    console = Console(width=100, file=io.StringIO())
    console.print(Group(*lab_pages.verdict(RING, file, found)))
    lines = [" ".join(line.split()) for line in console.file.getvalue().splitlines()]
    assert [line for line in lines if line.startswith("rank")] == [
        "ranks 0 and 2 waiting in all_reduce, line 5",
        "rank 1 not waiting; at line 7",
        "rank 3 ended",
    ]


def test_a_check_is_ended_when_its_result_is_not_wanted_any_more(tmp_path):
    file = tmp_path / "ring_all_reduce.py"
    file.write_text(HEAD + "    time.sleep(1000)\n")
    with pytest.raises(Stopped):
        check_solution(RING, file, stop=lambda: True)


def test_a_message_that_is_too_short_is_named_beside_the_claim_that_it_breaks(tmp_path):
    verdict = checked(tmp_path, "if dist.get_rank():\n    dist.recv(x[:4], 0)\nelse:\n    dist.send(x[:3], 1)")
    assert verdict.outcome == "claim"
    assert "Rank 0 sends 3 numbers in line 7, but rank 1 receives 4 numbers in line 5." in verdict.advice


def test_labs_lie_beside_the_learners_other_data_unless_a_folder_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DDPQUIZ_LABS", raising=False)
    monkeypatch.delenv("DDPQUIZ_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    assert own_labs_dir() == tmp_path / "user" / "ddpquiz-labs"
    monkeypatch.setenv("DDPQUIZ_HOME", str(tmp_path / "data"))
    assert own_labs_dir() == tmp_path / "data" / "labs"
    Path("ddpquiz-labs").mkdir()
    assert own_labs_dir() == Path("ddpquiz-labs")
    monkeypatch.setenv("DDPQUIZ_LABS", "mine")
    assert own_labs_dir() == Path("mine")


def test_the_command_that_repeats_a_check_names_the_folder_only_if_it_is_another_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DDPQUIZ_LABS", "mine")
    for folder, words in ((tmp_path / "mine", ""), (tmp_path / "other", " --dir other")):
        folder.mkdir()
        assert checked(folder, "os._exit(0)").repeat == f"ddpquiz lab ring-all-reduce --check{words}"


def test_each_run_has_a_fresh_seed_and_its_command_names_only_the_seed_that_failed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (run,) = planned(RING, 77)
    assert run.seeds == (1, 77)
    torchrun = Path(sys.executable).with_name("torchrun")
    for programs, launcher in ((torchrun.parent, "torchrun"), (tmp_path, str(torchrun))):
        monkeypatch.setenv("PATH", str(programs))
        line = command(RING, tmp_path / "a b.py", replace(run, args=("--size", "3")), 77)
        assert line == f"{launcher} --nproc-per-node 2 {RING.check} 'a b.py' --seed 77 --size 3"
    assert RING.check.is_absolute()
