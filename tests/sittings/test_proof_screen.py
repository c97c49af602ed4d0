"""A proof as the learner sees it: the question first, then what runs, then what that showed."""

import io
import random
from dataclasses import replace

import pytest
from inline_snapshot import snapshot
from run_program import LEAVE_SCREEN, sample
from sample import BYTES, HOOKS, PRINTS, STEPS

from ddpquiz.curriculum.concept import CodeProof, Line, Option, Shows
from ddpquiz.curriculum.posed_question import pose
from ddpquiz.terminal.kit import style
from ddpquiz.terminal.sittings import proof_screen

INSERTED = replace(
    BYTES,
    ask="Which call tells `which of all the ranks this one is`, so that each rank can take a share of its own?",
    options=(Option("dist.get_rank()", right=True, code=True), Option("dist.rank()", code=True)),
    proof=CodeProof("2", "<option>\nprint('ok')", Shows("ok")),
)
NUMBER = replace(STEPS, proof=CodeProof("1", "print(2 * (n - 1) / n * s)"))
ORDER = replace(
    HOOKS,
    lines=(Line("x = torch.ones(1)"), Line("x += 1"), Line("print(x.item())")),
    proof=CodeProof("1", "<option>", Shows("2.0")),
)


def shown(question, width=60):
    """Return what a proof prints, and whether it agrees with the key."""
    console = style.console(io.StringIO(), width=width)
    agrees = proof_screen.show(pose(question, random.Random(0)), console)
    return console.file.getvalue(), agrees


def test_the_question_with_its_values_comes_before_the_proof():
    text, agrees = shown(NUMBER)
    assert text == (
        snapshot("""\
A ring of 4 ranks moves 1,200 bytes. How many does each rank
send?

a calculation
n = 4
s = 1200
print(2 * (n - 1) / n * s)

observed: it prints '1800.0'
✓ the answer is 1,800 bytes
""")
    )
    assert agrees


def test_several_lines_that_ranks_print_are_a_block():
    two_lines = replace(PRINTS, code="print(world_size)\nprint([1])", answer="2\n[1]", proof=CodeProof("2"))
    text, agrees = shown(two_lines)
    assert text.endswith("observed: every rank prints\n  2\n  [1]\n✓ the answer is\n  2\n  [1]\n")
    assert agrees
    text, _ = shown(replace(two_lines, code="print(rank)\nprint([1])"))
    assert "observed:\nrank 0  0\n        [1]\nrank 1  1\n        [1]\n" in text


def test_answers_that_are_put_in_are_named_and_set_as_code():
    text, agrees = shown(INSERTED, width=80)
    assert "It runs once for each answer, put in place of <option>.\n" in text
    assert (
        "✓ right     dist.get_rank()\n            every rank prints 'ok'\n✗ wrong     dist.rank()\n            AttributeError: module"
        in text
    )
    assert agrees


def test_a_question_breaks_between_words():
    text, _ = shown(INSERTED)
    assert text.startswith("Which call tells `which of all the ranks this one is`, so\nthat each rank can take a share")


def test_lines_to_be_ordered_run_in_their_order():
    text, agrees = shown(ORDER)
    assert "x = torch.ones(1)\nx += 1\nprint(x.item())\n" in text
    assert "<option>" not in text
    assert agrees
    assert not shown(replace(ORDER, lines=(Line("x = torch.ones(1)"), Line("print(x.item())"))))[1]


def test_code_that_runs_is_shown_once():
    text, _ = shown(PRINTS)
    assert text.count("dist.all_reduce(x)") == 1
    text, _ = shown(replace(PRINTS, proof=CodeProof("4", "print([4.0, 6.0])")))
    assert "  dist.all_reduce(x)\n" in text


def test_code_of_the_question_that_is_part_of_what_runs_is_not_shown_twice():
    more = CodeProof("4", PRINTS.code + "\nassert x.sum() == 10")
    assert shown(replace(PRINTS, proof=more))[0].count("dist.all_reduce(x)") == 1


def test_one_process_that_talks_to_nobody_is_a_calculation():
    assert shown(NUMBER)[0].count("\na calculation\n") == 1
    assert "\n1 rank on CPU over Gloo\n" in shown(replace(NUMBER, proof=CodeProof("1", "print(dist.get_rank())")))[0]


def test_code_is_not_broken():
    long = replace(PRINTS, code=f"print([4.0, 6.0])  # {'-' * 90}")
    assert f"\n{long.code}\n" in shown(long)[0]


@pytest.mark.parametrize("leave", ["\r", "q"])
def test_a_proof_in_a_sitting_can_be_scrolled_and_leaves_nothing_behind(tmp_path, leave):
    terminal = sample(tmp_path, "test", "ring", "--kind", "choice", "--real", height=12)
    terminal.wait("Four ranks all-reduce")
    terminal.press("x", "This is the solution")
    shown = terminal.press("p", "The run does")
    assert shown.startswith("Four ranks all-reduce 1,200 bytes")
    assert "observed: it prints" in shown  # without scrolling
    assert "more below" in shown
    assert "print(1800)" in terminal.press("\x1b[F", "more above · ")
    terminal.press(leave, "enter next")
    terminal.press("q", "Done: ")
    terminal.press("q")
    assert terminal.end() == 0
    assert "print(1800)" not in terminal.raw.split(LEAVE_SCREEN)[-1]
    assert all("print(1800)" not in part.split("\x1b[?1049h")[0] for part in terminal.raw.split(LEAVE_SCREEN)[1:])
