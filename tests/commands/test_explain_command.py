"""`ddpquiz explain` from end to end: real keys in a real terminal, and real pipes."""

import json
import os
import re
import resource
import signal
import sys

import pytest
from inline_snapshot import snapshot
from run_program import LEAVE_SCREEN, SAMPLE, Terminal, environment, piped, sample
from sample_sittings import saved_explanations

from ddpquiz.learning.progress import Progress
from ddpquiz.learning.side_files import load_drafts


def test_an_explanation_in_a_terminal(home):
    terminal = sample(home, "explain", "ring")
    terminal.wait("Why a ring, and not a root")
    terminal.press("The bottleneck", "> The bottleneck_")
    terminal.resize(24, 60)
    terminal.press("\rothers idle", "others idle_")
    terminal.press("\x04", "You ticked 0 of 3 points")
    terminal.press("3", "You ticked 1 of 3 points")
    terminal.press("\r", "Done: 1 of 3 points are ticked by you")
    terminal.press("\r")
    assert terminal.end() == 0
    assert "Done: 1 of 3 points are ticked by you." in terminal.raw.split(LEAVE_SCREEN)[-1]


def test_what_is_pasted_in_a_terminal_is_neither_graded_nor_obeyed(home):
    terminal = sample(home, "explain", "ring")
    terminal.wait("Why a ring")
    assert "\x1b[?2004h" in terminal.raw
    terminal.press("\x1b[200~The bottleneck.\r\rq others\x1b[201~", "q others_")
    terminal.press(" idle\x04", "You ticked 0 of 3 points")
    terminal.press("\x1b[200~q\r3\x1b[201~")
    terminal.press("1", "You ticked 1 of 3 points")
    terminal.press("q")
    assert terminal.end() == 0
    assert terminal.raw.rindex("\x1b[?2004l") > terminal.raw.rindex("\x1b[?2004h")


@pytest.mark.parametrize("leave", ["\x03", "\x1bq"])
def test_an_unfinished_text_is_there_again_the_next_time_until_it_is_graded(home, leave):
    terminal = sample(home, "explain", "ring")
    terminal.wait("Why a ring")
    terminal.press("The bottleneck\rothers", "others_")
    terminal.press(leave)
    assert terminal.end() == (130 if leave == "\x03" else 0)
    assert "Your unfinished text is saved for next time." in terminal.raw.split(LEAVE_SCREEN)[-1]
    terminal = sample(home, "explain", "ring")
    terminal.wait("Your unfinished text from last time is back", "> The bottleneck\n  others_")
    terminal.press(" idle\x04", "You ticked 0 of 3 points")
    terminal.press("q")
    assert terminal.end() == 0
    assert load_drafts(home) == {}
    terminal = sample(home, "explain", "ring")
    assert "last time" not in terminal.wait("> _")
    terminal.press("\x03")
    assert terminal.end() == 130


@pytest.mark.parametrize(("leave", "disk"), [("\x1bq", "full"), ("\x03", "full"), ("\x04", "full"), ("\x03", "other")])
def test_a_text_that_cannot_be_saved_is_printed_so_that_it_can_be_copied(home, leave, disk):
    terminal = sample(home, "explain", "ring", width=400)
    terminal.wait("Why a ring")
    terminal.press("The bottleneck\rothers", "others_")
    if disk == "full":  # each write to a file fails from now on
        resource.prlimit(terminal.child.pid, resource.RLIMIT_FSIZE, (0, 0))
        fault = "File too large"
    else:
        (home / "drafts.json").mkdir()
        fault = "Is a directory"
    terminal.press(leave)
    assert terminal.end() == 1
    *_, head, first, second, sentence = terminal.raw.split(LEAVE_SCREEN)[-1].splitlines()
    assert [head, first, second] == ["Your unfinished text:", "The bottleneck", "others"]
    assert sentence == (
        f"{home / 'drafts.json'} cannot be written ({fault}), so what you began to write was not saved; "
        "copy it, and make room there or set DDPQUIZ_HOME to another folder."
    )
    assert not any("Traceback" in line for line in terminal.lines)
    assert not [*home.glob("drafts.json.*")]


def test_a_kill_loses_no_explanation_and_no_objection(home):
    terminal = sample(home, "explain", "ring")
    terminal.wait("Why a ring")
    terminal.press("idle\r\r", "You ticked 0 of 3 points")
    terminal.press("1", "You ticked 1 of 3 points")
    terminal.child.kill(signal.SIGKILL)
    terminal.end()
    with Progress(home) as progress:
        assert saved_explanations(progress) == [("ring/why-ring", pytest.approx(1 / 3), "idle", [True, False, False])]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_with_the_terminal_as_it_was(home, number):
    terminal = sample(home, "explain", "ring")
    terminal.wait("Why a ring")
    os.kill(terminal.child.pid, number)
    assert terminal.end() == 128 + number
    assert LEAVE_SCREEN in terminal.raw


def test_control_d_leaves_when_nothing_is_written(home):
    terminal = sample(home, "explain", "ring", NO_COLOR="1")
    terminal.wait("Why a ring")
    terminal.press("\x04")
    assert terminal.end() == 0
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", terminal.raw)
    assert "Done: nothing explained." in terminal.raw


def test_a_terminal_that_cannot_be_painted_explains_by_lines(home):
    terminal = sample(home, "explain", "ring", TERM="dumb")
    terminal.wait("empty line check")
    terminal.press("others idle\r\r")
    terminal.wait("You ticked 0 of 3 points")
    terminal.press("\r")
    assert terminal.end() == 0
    assert "\x1b" not in terminal.raw


def test_a_pipe_prints_the_model_answer_and_scores_nothing(home):
    done = piped(home, "explain", "ring", lines="The root's link is the bottleneck.\n\nThe other links idle.\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == snapshot("""\
A model answer
  A root sends and receives everything.

A good answer makes these points
  • the root's link is the bottleneck
  • the other links idle meanwhile
  • each rank sends less than two tensors

Nothing is scored or saved here: compare your text with these points. In a
terminal you tick them; in a pipe, a program that --judge names can do it.
""")
    result = json.loads(piped(home, "explain", "ring/why-ring", "--json", lines="idle\n\nidle").stdout)
    (told,) = result["explanations"]
    assert (told["item"], told["text"], told["made"]) == ("ring/why-ring", "idle\n\nidle", None)
    assert [point["made"] for point in told["points"]] == [None, None, None]
    with Progress(home) as progress:
        assert progress.log() == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("explain", "ring"),
            "There is no text on standard input; write your explanation of ring/why-ring there.\n",
        ),
        (
            ("explain", "ring/bytes"),
            "`ring/bytes` is a card or a question; you can explain ring/why-ring.\n",
        ),
        (("explain", "rang"), "No concept named 'rang'. Did you mean 'ring'?\n"),
        (
            ("explain", "ring", "--editor"),
            "--editor needs a terminal; without it, the text is read from standard input.\n",
        ),
    ],
)
def test_what_cannot_be_explained_is_reported_in_a_sentence(home, words, said):
    done = piped(home, *words)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)


def test_without_a_concept_those_that_can_be_explained_are_listed(home):
    done = piped(home, "explain")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == snapshot("""\
Collectives
  ring  The ring

ddpquiz explain CONCEPT  explain one of them in your own words
""")


@pytest.mark.parametrize("option", ["--json", "--editor", "--judge=true"])
def test_an_option_of_explain_needs_a_concept(home, option):
    done = piped(home, "explain", option)
    assert (done.returncode, done.stdout) == (2, "")
    assert "name a concept; `ddpquiz explain` lists them." in " ".join(done.stderr.split())


@pytest.mark.parametrize("words", ["explain ring", "test ring --kind number"])
def test_what_was_written_is_still_there_after_control_z(home, words):
    terminal = Terminal("bash", "--norc", "-i", env=environment(home, PS1="$ "))
    terminal.press(f"{sys.executable} {SAMPLE} {words}\n", "Explain 1/1|Question 1/1")
    terminal.press("18", "> 18_")
    terminal.press("\x1a", r"\[1\]\+")  # what follows is "Stopped" in the language of the learner
    terminal.press("fg\n", "> 18_")
    terminal.press("00")
    assert "> 1800_" in terminal.wait("> 1800")
    terminal.child.close(force=True)
