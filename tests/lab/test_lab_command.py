"""`ddpquiz lab`: the list, the learner's folder, one check, hints, the solution, and the screen that watches a file."""

import json
import os
import subprocess
import sys

import pytest
from run_program import ddpquiz, environment, log

from ddpquiz.curriculum.labs import load_lab

RING = load_lab("ring-all-reduce")
NAME = "ring_all_reduce.py"


@pytest.fixture
def lab(tmp_path):
    """Run `ddpquiz lab` with its files and its progress in a folder of their own."""

    def run(*words):
        command = [sys.executable, "-m", "ddpquiz", "lab", *words, "--dir", str(tmp_path / "mine")]
        return subprocess.run(command, env=environment(tmp_path / "home"), capture_output=True, text=True)

    return run


def test_the_list_says_what_is_new_and_begun(lab, tmp_path):
    assert "new     ring-all-reduce" in lab().stdout
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / NAME).touch()
    assert "begun   ring-all-reduce" in lab().stdout


def test_a_check_of_the_starter_fails_and_a_pass_is_saved_once_a_day(lab, tmp_path):
    file = tmp_path / "mine" / NAME
    done = lab("ring-all-reduce", "--check", "--json")
    assert (done.returncode, json.loads(done.stdout)["outcome"]) == (1, "unwritten")
    assert file.read_text() == RING.solution.starter
    file.write_text(RING.solution.source)
    for _ in range(2):
        done = lab("ring-all-reduce", "--check", "--json")
        assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert (found["passed"], found["stars"], found["figures"]["sent"]["yours"] > 0) == (True, ["fewest bytes"], True)
    assert log(tmp_path / "home") == [("lab", "all-reduce-ring/ring-all-reduce", None, 1.0)]
    assert "✓ passed  ring-all-reduce" in lab().stdout


def test_a_file_that_is_there_is_never_overwritten(lab, tmp_path):
    file = tmp_path / "mine" / NAME
    file.parent.mkdir()
    for number in (1, 2):
        file.write_text(f"# mine {number}\n")
        assert lab("ring-all-reduce", "--reset").returncode == 0
        assert file.read_text() == RING.solution.starter
        assert (tmp_path / "mine" / f"ring_all_reduce_{number}.py").read_text() == f"# mine {number}\n"


def test_a_pipe_in_the_place_of_the_file_is_named_and_not_waited_for(lab, tmp_path):
    (tmp_path / "mine").mkdir()
    os.mkfifo(tmp_path / "mine" / NAME)
    done = lab("ring-all-reduce", "--check")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"{NAME} is a pipe or a device; remove it, or name another folder with --dir." in done.stderr


def test_the_task_is_printed_without_a_terminal(lab):
    done = lab("ring-all-reduce", "--task")
    assert done.returncode == 0
    assert RING.title in done.stdout
    words = [word for word in RING.task.split() if word.isalpha()]
    assert set(words) <= set(done.stdout.split())


def test_hints_come_one_by_one_and_the_solution_is_saved_as_seen(lab, tmp_path):
    assert [lab("ring-all-reduce", "--hint").stdout.count("Hint ") for _ in range(4)] == [1, 2, 3, 3]
    assert lab("ring-all-reduce", "--solution").stdout == RING.solution.source
    assert [credit for *_, credit in log(tmp_path / "home")] == [0.0]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["ring-al-reduce"], 1, "No lab named 'ring-al-reduce'. Did you mean 'ring-all-reduce'?"),
        (["--check"], 2, "name a lab; `ddpquiz lab` lists them."),
        (["ring-all-reduce", "--json"], 2, "it needs --check."),
        (["ring-all-reduce", "--hint", "--reset"], 2, "use one of --check, --task, --hint, --solution and --reset."),
    ],
)
def test_wrong_usage_is_answered_with_a_sentence(lab, words, status, said):
    done = lab(*words)
    assert done.returncode == status
    assert said in " ".join(done.stderr.replace("│", "").split())


def test_a_save_is_checked_and_the_screen_goes_on_whatever_happens_to_the_file(tmp_path):
    file = tmp_path / NAME
    with_folder = {"DDPQUIZ_LABS": str(tmp_path), "EDITOR": "false"}
    screen = ddpquiz("lab", "ring-all-reduce", home=tmp_path / "home", **with_folder)
    screen.wait("Line 22 is still to be written", "waiting for you to save ring_all_reduce.py")
    file.write_text(RING.solution.source.replace("arriving += received", "arriving.copy_(received)"))
    screen.wait(
        "On rank 0 of 2, element 0 of",
        "ranks 0 and 1 +as above",
        "Repeat this run:",
        "waiting for you to save ring_all_reduce.py",
    )
    screen.press("v", r"call (\d+) of \1")  # what went wrong is at the end
    screen.press("q", "waiting for you to save ring_all_reduce.py")
    file.write_text("def all_reduce(x)\n")
    screen.wait("Line 1 of ring_all_reduce.py is not valid Python")
    file.unlink()
    screen.wait("ring_all_reduce.py is gone")
    file.write_text("import time\ndef all_reduce(x):\n    while True:\n        pass\n")
    screen.wait("checking: run 1 of 4")  # the next save ends this check
    file.write_text(RING.solution.source)
    screen.wait("It passes: 4 runs", "★ fewest bytes", "rounds")
    screen.press("\x1b[F", "Next", 'n  the next lab: "')
    screen.press("h", "n next lab")
    screen.press("s", "The solution")
    screen.press("q", "passed; each save is checked again")
    screen.press("e", "ended with status 1")
    screen.press("v", "call 0 of")
    screen.press("q", "passed; each save is checked again")
    screen.press("q")
    screen.end()
    assert [credit for *_, credit in log(tmp_path / "home")] == [1.0, 0.0]


def test_the_solution_is_shown_before_an_attempt_only_when_asked_twice(tmp_path):
    screen = ddpquiz("lab", "ring-all-reduce", home=tmp_path / "home", DDPQUIZ_LABS=str(tmp_path))
    screen.wait("Task")
    screen.press("h", "Hint 1 of 3")
    screen.press("s", "Press s again")
    screen.press("s", "The solution")
    screen.press("qq")
    screen.end()


def test_a_new_verdict_is_read_from_its_first_line_also_below_hints(tmp_path):
    file = tmp_path / NAME
    screen = ddpquiz("lab", "ring-all-reduce", home=tmp_path / "home", DDPQUIZ_LABS=str(tmp_path))
    screen.wait("Line 22 is still to be written", "waiting for you to save ring_all_reduce.py")
    for number in (1, 2, 3):
        screen.press("h", f"Hint {number} of 3")
    file.write_text(RING.solution.source.replace("arriving += received", "arriving.copy_(received)"))
    screen.wait("✗ On rank 0 of 2, element 0 of", "waiting for you to save ring_all_reduce.py")
    screen.press("q")
    screen.end()


def test_a_program_to_repair_is_shown_with_its_task_first_until_it_is_saved(tmp_path):
    file = tmp_path / "repair_uneven_gather.py"
    screen = ddpquiz("lab", "repair-uneven-gather", home=tmp_path / "home", height=60, DDPQUIZ_LABS=str(tmp_path))
    shown = screen.wait("✗ .*[Rr]ank", "waiting for you to save repair_uneven_gather.py")
    assert shown.index("\nTask\n") < shown.index("\nThe file as it is\n") < shown.index("✗")
    file.write_text(f"{file.read_text()}\n# saved\n")
    shown = screen.wait("^✗ .*[Rr]ank", "waiting for you to save repair_uneven_gather.py")
    assert "Task\n" not in shown
    screen.press("q")
    screen.end()
