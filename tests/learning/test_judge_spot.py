"""Questions that ask for the line at fault: read, judged, shown, and proven on real ranks."""

import dataclasses
import io

import pytest
from inline_snapshot import snapshot
from ring_file import read
from sample_sittings import press, quizzing, screen, spoken
from spot_question import CODE, SPOT, spot_complaints, spot_file

from ddpquiz.curriculum.concept import Shows, Trap
from ddpquiz.curriculum.posed_question import Posed, expected
from ddpquiz.curriculum.question_code import fault_line, fixed_script, script_lines, without_line
from ddpquiz.learning.answers import answer_text, beliefs
from ddpquiz.learning.judge import answered, chance, judge
from ddpquiz.ranks.content_check import prove_all
from ddpquiz.terminal.kit import layout, style
from ddpquiz.terminal.pages.item import item_page
from ddpquiz.terminal.sittings import proof_screen

POSED = Posed(SPOT, {}, ())


def test_the_question_is_read_as_it_is_written():
    reading = read(spot_file())
    assert reading.page.complaints == []
    assert reading.concept.questions[-1] == SPOT


CASES = {
    "no fix": (
        ('    fix: "    mean = mean.round()"\n', ""),
        "1:5: missing key `fix`",
    ),
    "a line that is not in the script": (
        ("answer: dist.all_reduce(mean)", "answer: dist.broadcast(x, 0)"),
        "15:13: `answer`: no line of `code` is `dist.broadcast(x, 0)`; name exactly one line",
    ),
    "a line that occurs twice": (
        ("      mean = x / world_size\n", "      dist.all_reduce(x)\n"),
        "18:18: `answer`: 2 lines of `code` are `dist.all_reduce(x)`; name exactly one line",
    ),
    "a trap that is the answer": (
        ("{answer: dist.all_reduce(x)", "{answer: dist.all_reduce(mean)"),
        "18:18: `answer`: this line is named twice",
    ),
    "a comment as the answer": (
        ("answer: dist.all_reduce(mean)", 'answer: "# Only one rank prints."'),
        "15:13: `answer`: no line of `code` is `# Only one rank prints.`; name exactly one line",
    ),
    "a fix that changes nothing": (
        ('"    mean = mean.round()"', '"    dist.all_reduce(mean)"'),
        "16:10: `fix`: it is the line as it is; write what should stand there, with its indentation",
    ),
    "a fix without its indentation": (
        ('"    mean = mean.round()"', '"mean = mean.round()"'),
        "16:10: `fix` is not valid Python: expected an indented block after 'if' statement on line 6",
    ),
    "a script that is too short": (
        ("      mean = x / world_size\n\n      # Only one rank prints.\n", "\n"),
        "5:11: `code`: the script of a `spot` question has 8 to 25 lines, not 7",
    ),
    "no sign of the fault": (
        ("hangs: true, ", ""),
        "22:12: `proof`: it needs `prints`, `raises` or `hangs`: what the script shows as it is",
    ),
    "no sign of the fix": (
        (', fixed: {0: "[1.0, 0.0]"}', ""),
        "22:12: `proof`: it needs `fixed`: what the script prints with the line fixed",
    ),
    "a fix that changes nothing to see": (
        ('hangs: true, fixed: {0: "[1.0, 0.0]"}', "prints: done, fixed: done"),
        "22:44: `fixed`: it is the same as without the fix, so the proof cannot decide",
    ),
    "a fix after which it still fails": (
        ('fixed: {0: "[1.0, 0.0]"}', "fixed: {raises: ValueError}"),
        "22:43: `fixed`: a script that is fixed prints something",
    ),
    "a proof by a demo": (
        ('{ranks: 2, hangs: true, fixed: {0: "[1.0, 0.0]"}}', "{ranks: 2, demo: ring, label: bytes sent}"),
        "22:29: `demo`: a `spot` question is proven by code, not by a demo",
    ),
    "a rank that is not there": (
        ('{0: "[1', '{2: "[1'),
        "22:20: `ranks`: rank 2 is asked for, but the last rank is 1",
    ),
    "code in which the script has no place": (
        ("{ranks: 2, ", '{ranks: 2, code: "print(1)", '),
        "22:29: `code`: `<option>`, which stands for the script, must be one line of it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_reported_with_its_place(name):
    edit, *expected = CASES[name]
    assert spot_complaints(edit) == expected


def test_only_this_kind_has_a_fix():
    text = (
        spot_file()
        .replace("    rank: 1\n", "    rank: 1\n    fix: x\n", 1)
        .replace("{ranks: 2}", "{ranks: 2, fixed: a}")
    )
    assert [each.text for each in sorted(read(text).page.complaints)] == snapshot([
        "`fix` does not belong here: an `output` question does not have it",
        "`fixed`: only a `spot` question has it",
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("given", "right", "said"),
    [
        ("7", True, ""),
        ("line 7", True, ""),
        ("dist.all_reduce(mean)", True, ""),
        (expected(POSED), True, ""),
        ("2", False, "Every rank makes this call."),
        ("3", False, ""),
        ("4", None, "Answer with the number of a line of code, from 1 to 9."),
        ("5", None, "Answer with the number of a line of code, from 1 to 9."),
        ("10", None, "Answer with the number of a line of code, from 1 to 9."),
        ("0", None, "Answer with the number of a line of code, from 1 to 9."),
        ("²", None, "Answer with the number of a line of code, from 1 to 9."),
        ("", None, "Answer with the number of a line of code, from 1 to 9."),
    ],
)
def test_a_line_is_named_by_its_number_or_its_text(given, right, said):
    verdict = judge(POSED, given)
    assert (verdict.right, " ".join(verdict.whys), verdict.unclear) == (
        (right, said, "") if right is not None else (False, "", said)
    )


def test_the_log_keeps_the_text_of_the_line_because_numbers_change():
    verdict = judge(POSED, "2")
    kept = answer_text(POSED, "2", verdict.chosen)
    assert (kept, answered(POSED, "2")) == ("dist.all_reduce(x)", "line 2: dist.all_reduce(x)")
    assert [found.why for found in beliefs(SPOT, kept)] == ["Every rank makes this call."]


def test_a_blind_guess_is_among_the_lines_of_code():
    assert chance(SPOT) == 1 / 7


def test_a_fix_and_a_line_that_is_left_out_keep_the_rest_of_the_script():
    lines = script_lines(SPOT)
    assert fixed_script(SPOT).splitlines() == [*lines[:6], "    mean = mean.round()", *lines[7:]]
    assert without_line(SPOT, "print(mean.tolist())").splitlines() == [*lines[:7], "    pass", lines[8]]
    assert fault_line(SPOT) == 6


def test_arrows_and_digits_mark_a_line_and_enter_answers(progress):
    seat = quizzing(progress, SPOT)
    assert screen(press(seat, "down", "down", "down", "down")) == (
        snapshot("""\
Question 1/1 · hard · The ring

The script hangs. Which line is at fault?
Choose the line that is at fault, or type its number.

  1  x = torch.tensor([1.0, float(rank)])
  2  dist.all_reduce(x)
  3  mean = x / world_size
  4
  5  # Only one rank prints.
> 6  if rank == 0:
  7      dist.all_reduce(mean)
  8      print(mean.tolist())
  9  dist.barrier()


↑ ↓ choose · enter answer · h hint (1) · x solution · s skip · ? help · q quit""")
    )
    assert "> 3  mean" in screen(press(seat, "up"))
    assert "> 9  dist" in screen(press(seat, "9", "down"))
    assert "> 8      print" in screen(press(seat, "backspace", "8"))
    assert "Answer with the number of a line" in screen(press(seat, "ctrl+u", "enter"))
    assert screen(press(seat, "2", "enter")) == (
        snapshot("""\
Question 1/1 · hard · The ring
✗ Wrong. Every rank makes this call.

The script hangs. Which line is at fault?

  1  x = torch.tensor([1.0, float(rank)])
  2  dist.all_reduce(x)
  3  mean = x / world_size
  4
  5  # Only one rank prints.
  6  if rank == 0:
  7      dist.all_reduce(mean)
  8      print(mean.tolist())
  9  dist.barrier()

✗> 2  dist.all_reduce(x)
✓  7      dist.all_reduce(mean)
      at fault

Fixed
    7      mean = mean.round()

Steps
  1. Rank 1 makes two calls, and rank 0 three.

Cross-check
  All ranks make the same calls.

enter next · p proof · d demo · f flag · ? help · q quit""")
    )


def test_in_a_pipe_a_line_is_named_by_its_number(progress):
    seat = quizzing(progress, SPOT, final=True)
    assert "✓ Right." in spoken(seat, "7")
    assert [row.given for row in progress.entries("answer")] == ["dist.all_reduce(mean)"]


def test_the_page_of_the_item_shows_numbers_and_the_fix():
    console = style.console(io.StringIO(), width=80)
    layout.show(console, item_page(SPOT))
    text = console.file.getvalue()
    assert "│  7      dist.all_reduce(mean)\n" in text
    assert "right  line 7: dist.all_reduce(mean)\n       fixed:\n           mean = mean.round()\n" in text


PRINTING = dataclasses.replace(
    SPOT,
    code=CODE.replace("dist.all_reduce(mean)", "mean = mean * 0"),
    answer="mean = mean * 0",
    fix="    mean = mean * 1",
    proof=dataclasses.replace(SPOT.proof, shows=Shows(by_rank={0: "[0.0, 0.0]"}),
                              fixed=Shows(by_rank={0: "[1.0, 0.5]"})),
)  # fmt: skip


def proven(question):
    return next(iter(prove_all([question]))).complaints


def with_fixed(question, shows):
    return dataclasses.replace(question, proof=dataclasses.replace(question.proof, fixed=shows))


def test_a_proof_runs_the_script_as_it_is_and_fixed():
    assert proven(SPOT) == ()
    assert proven(PRINTING) == ()
    console = style.console(io.StringIO(), width=80)
    assert proof_screen.show(Posed(SPOT, {}, ()), console)
    assert "✓ as it is\n  observed: the ranks wait, and no call ends\n✓ with line 7 fixed:\n" in console.file.getvalue()


def test_a_proof_that_does_not_show_the_fault_or_the_fix_is_complained_about():
    no_fault = dataclasses.replace(PRINTING, proof=dataclasses.replace(PRINTING.proof, shows=Shows("done")))
    assert proven(no_fault)[0].startswith("the script as it is does not show what the proof says: rank 0 prints")
    assert proven(with_fixed(PRINTING, Shows("done")))[0].startswith("the script with the fix does not show")


def test_a_wrong_line_without_which_the_script_is_right_is_complained_about():
    added_twice = dataclasses.replace(
        with_fixed(PRINTING, Shows(by_rank={0: "[2.0, 1.5]"})),
        code=CODE.replace("# Only one rank prints.", "mean += 1").replace("dist.all_reduce(mean)", "mean = mean + 1"),
        answer="mean = mean + 1",
        traps=(Trap("mean += 1", "One is added here."),),
    )
    added_twice = dataclasses.replace(
        added_twice, proof=dataclasses.replace(added_twice.proof, shows=Shows(by_rank={0: "[3.0, 2.5]"}))
    )
    assert proven(added_twice) == (
        "without the line 'mean += 1' the script is right too, so that line could be at fault",
    )


def test_a_line_that_nobody_explained_comes_with_what_to_look_at(progress):
    seat = quizzing(progress, SPOT)
    shown = screen(press(seat, "3", "enter") if not seat.quiz.judged else seat)
    assert "✗> 3  mean = x / world_size\n" in shown
    assert "      The fault is in another line. Count the calls of each rank.\n" in shown
