"""`--step`: a run that opens at its first operation once it has ended, on a real terminal."""

import subprocess
import sys

import pytest
from run_program import ddpquiz

RIGHT, LEFT = "\x1b[C", "\x1b[D"


def row(shown, label):
    return next(line.split() for line in shown.splitlines() if line.startswith(label))


def test_a_run_opens_at_its_first_operation_and_goes_forward_and_back(script):
    path = script(
        "dist.all_reduce(x)\ndist.broadcast(x * rank, 1)\nprint('ready: yes')\ndist.destroy_process_group()\n"
    )
    terminal = ddpquiz("run", "--nproc", "2", "--step", path)
    terminal.wait(
        "call 0 of 4", "next: rank . calls all_reduce", "^This is the run again, from its start[.] · ← → call"
    )
    terminal.press(RIGHT, "call 1 of 4")
    terminal.press("n", "call 2 of 4", "calls broadcast")
    terminal.press("n", "call 4 of 4", "enter leave · ← → call .* q end")
    terminal.press("q", "step through")
    terminal.press("\r")
    assert terminal.end() == 0
    assert row(terminal.text, "ready") == ["ready", "yes", "yes"]


def test_going_back_to_the_start_shows_the_first_operation_again(script):
    terminal = ddpquiz("run", "--nproc", "2", "--step", script("for _ in range(3): dist.all_reduce(x)\n"))
    terminal.wait("call 0 of 6")
    terminal.press("nn", "call 4 of 6")
    terminal.press(LEFT * 4, "call 0 of 6")
    terminal.press("q", "step through")
    terminal.press("q")
    assert terminal.end() == 0


def test_the_run_itself_is_not_changed_by_stepping(script):
    body = "began = time.monotonic()\ndist.all_reduce(x)\nassert time.monotonic() - began < 30, 'no one waits'\n"
    terminal = ddpquiz("run", "--nproc", "2", "--step", script(body))
    shown = terminal.wait("call 0 of 2")
    assert "calls all_reduce" in shown
    shown = terminal.press("n", "call 2 of 2", "no one waits")
    terminal.press("qq")
    assert terminal.end() == 0
    assert "done in" in terminal.text


def test_a_failed_run_is_stepped_through_too(script):
    terminal = ddpquiz("run", "--nproc", "2", "--step", script("dist.all_reduce(x)\nif rank: sys.exit('no data')\n"))
    terminal.wait("call 0 of 2")
    terminal.press("q", "no data")
    terminal.press("q")
    assert terminal.end() == 1


def test_a_run_that_is_stopped_is_not_opened(script):
    terminal = ddpquiz(
        "run", "--nproc", "2", "--step", script("dist.all_reduce(x)\nprint('here: yes')\ntime.sleep(1000)\n")
    )
    terminal.wait("here +yes")
    terminal.press("q")
    assert terminal.end() == 130
    assert "call 0" not in terminal.text


def test_a_demo_with_restarts_is_stepped_through_too():
    terminal = ddpquiz("demo", "elastic", "--nproc", "2", "--step", "--no-predict")
    terminal.wait("call 0 of ", "next: rank . calls ")
    terminal.press("qq")
    assert terminal.end() == 0


@pytest.mark.parametrize("more", [(), ("--json",), ("--plain",)], ids=str)
def test_stepping_needs_a_terminal(more):
    command = [sys.executable, "-m", "ddpquiz", "demo", "collectives", "--nproc", "2", "--step", *more]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    sentence = "--step needs a terminal, and cannot be combined with --plain or --json."
    assert (ran.returncode, ran.stdout, ran.stderr.strip()) == (1, "", sentence)
