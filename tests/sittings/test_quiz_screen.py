"""Questions on the screen, as text."""

import io
import sys
from dataclasses import replace

import passed
import pytest
from inline_snapshot import snapshot
from sample import BYTES, PHASES, PRINTS, QUESTIONS, STEPS
from sample_sittings import context, press, quizzing, screen

from ddpquiz.curriculum import loading
from ddpquiz.curriculum.concept import Kind
from ddpquiz.curriculum.posed_question import expected
from ddpquiz.errors import UserError
from ddpquiz.learning import quiz
from ddpquiz.learning.judge import judge
from ddpquiz.learning.quiz import Given
from ddpquiz.terminal.kit import style
from ddpquiz.terminal.sittings import question_view
from ddpquiz.terminal.sittings.question_view import Entry


def test_a_question_shows_its_options_and_the_keys_that_work_now(progress):
    assert screen(quizzing(progress)) == (
        snapshot("""\
Question 1/5 · medium · The ring

Four ranks all-reduce 1,200 bytes with a ring. How many bytes does each rank
send?
Choose one.

 1  1,200 bytes
 2  1,800 bytes
 3  2,400 bytes
 4  3,600 bytes

1-4 answer · h hint (2) · x solution · s skip · d demo · ? help · q quit""")
    )


def test_a_digit_answers_at_once_and_the_verdict_says_why_each_wrong_option_is_wrong(progress):
    seat = press(quizzing(progress), "h", "1")
    assert screen(seat) == (
        snapshot("""\
Question 1/5 · medium · The ring
✗ Wrong. Each sum travels to be made and again to be shared.

Four ranks all-reduce 1,200 bytes with a ring. How many bytes does each rank
send?

✗>1  1,200 bytes
✓ 2  1,800 bytes
  3  2,400 bytes
     That is the limit for very many ranks.
  4  3,600 bytes
     A root would send that much.

Steps
  1. A chunk is 300 bytes.
  2. 6 x 300 = 1,800 bytes.

Cross-check
  Between S and 2 S.

enter next · p calculation · d demo · f flag · ? help · q quit\
""")
    )
    assert screen(press(seat, "1", "2", "h", "x")) == screen(seat)  # only what is offered goes on
    assert "Question 2/5" in screen(press(seat, "enter"))


def test_hints_come_in_stages_and_a_right_answer_then_earns_half(progress):
    seat = press(quizzing(progress), "h")
    assert "Hint 1  How large is a chunk?\n" in screen(seat)
    assert "Hint 2" not in screen(seat)
    assert "Hint 2  There are six steps.\n" in screen(press(seat, "h"))
    assert "h hint" not in screen(seat)
    assert "All hints are shown.\n" in screen(press(seat, "h"))
    assert "✓ Right, with a hint: half a point." in screen(press(seat, "2"))
    assert [row.credit for row in progress.entries("answer")] == [0.5]


def test_a_solution_that_was_asked_for_earns_nothing(progress):
    assert "This is the solution; the question earns nothing." in screen(press(quizzing(progress), "x"))
    assert [(row.credit, row.given) for row in progress.entries("answer")] == [(0.0, "")]


def test_a_demo_before_the_answer_counts_as_a_hint_and_after_it_is_free(progress):
    seat = press(quizzing(progress, BYTES, PHASES, BYTES), "d")
    assert seat.context.ranks.started == ["allreduce"]
    assert "Hint 1  How large is a chunk?\n\nHint 2  There are six steps.\n" in screen(seat)
    assert "h hint" not in screen(seat)
    assert "✓ Right, with a hint: half a point." in screen(press(seat, "2"))
    press(seat, "enter", "d")  # the next one has no hints
    press(seat, *expected(seat.quiz.posed).split(), "enter")
    assert "✓ Right, with a hint: half a point." in screen(seat)
    assert "✓ Right.\n" in screen(press(seat, "enter", "2", "d"))
    assert [row.credit for row in progress.entries("answer")] == [0.5, 0.5, 1.0]


def test_a_demo_that_did_not_run_costs_nothing(progress):
    seat = quizzing(progress, BYTES)
    seat.context.ranks.error = UserError("It cannot run here.")
    assert "It cannot run here.\n" in screen(press(seat, "d"))
    assert "✓ Right.\n" in screen(press(seat, "2"))


def test_the_help_says_what_a_demo_before_the_answer_costs(progress):
    shown = " ".join(screen(press(quizzing(progress, BYTES), "?")).split())
    assert "before the answer it counts as a hint, so a right answer earns half a point" in shown


def test_undo_is_named_wherever_it_works(progress):
    seat = press(quizzing(progress, BYTES, PRINTS, BYTES), "s")
    assert screen(seat).endswith("enter answer · esc then: h hint (1) · u undo · x solution · ? help · q quit")
    assert "h hint (2) · u undo" in screen(press(seat, "escape", "s"))


def test_u_after_a_verdict_looks_back_and_changes_nothing(progress):
    seat = press(quizzing(progress, BYTES, PHASES, STEPS), "2", "enter", "h")
    before = screen(seat)
    shown = screen(press(seat, "u"))
    assert shown.startswith("Question 1/3 · looking back · medium · The ring\n✓ Right.\n\nFour ranks all-reduce")
    assert shown.endswith("enter forward · esc back · p calculation · d demo · f flag · ? help · q quit")
    assert "1 does nothing here" in screen(press(seat, "x", "s", "u", "1"))
    assert screen(seat).replace("1 does nothing here; ? lists the keys.\n", "") == shown
    seen = before.replace("There is no hint here; ? lists the keys.\n", "")
    assert screen(press(seat, "escape")) == seen
    press(seat, "u")
    assert screen(press(seat, "enter")) == seen
    assert [row.credit for row in progress.entries("answer")] == [1.0]
    assert [row.kind for row in progress.log()] == ["answer"]


def test_a_flagged_question_says_so_above_and_can_be_unflagged_below(progress):
    seat = press(quizzing(progress, BYTES), "2", "f")
    assert screen(seat).startswith("Question 1/1 · medium · The ring · flagged\n")
    assert "flagged as wrong or unclear · f removes the flag\nenter next" in screen(seat)
    assert "f unflag" in screen(seat)
    assert "f flag" in screen(press(seat, "f"))


def test_p_without_a_proof_says_so(progress):
    assert "This question has no proof.\nenter next" in screen(press(quizzing(progress, PHASES), "x", "p"))
    assert "The proof comes with the verdict.\n" in screen(press(quizzing(progress, BYTES), "p"))


def test_a_verdict_that_does_not_fit_folds_the_question_and_repeats_it_below(progress):
    long = replace(BYTES, ask=BYTES.ask + " Nobody fails." * 60)
    seat = press(quizzing(progress, long), "4")
    lines = screen(seat, height=24).split("\n")
    assert lines[:7] == snapshot(
        [
            "Question 1/1 · medium · The ring",
            "✗ Wrong. A root would send that much.",
            "",
            "Four ranks all-reduce 1,200 bytes with a ring. How many bytes does each rank",
            "send? Nobody fails. Nobody fails. Nobody fails. Nobody fails. Nobody fails.",
            "Nobody fails. Nobody fails. Nobody fails. Nobody fails. Nobody fails. Nobody",
            "fails. Nobody fails. Nobody fails. Nobody fails. Nobody fails. Nobody fails. …",
        ]
    )
    assert lines[8].startswith("✗>4  3,600 bytes")
    assert lines[9].startswith("✓ 2  1,800 bytes")
    assert "\nThe question\n  Four ranks all-reduce 1,200 bytes" in "\n".join(lines)
    assert "The question" not in screen(seat, height=60)
    short = press(quizzing(progress, replace(BYTES, ask=BYTES.ask + " Nobody fails." * 20)), "4")
    assert "Nobody fails.\n\n✗>4  3,600 bytes" in screen(short, height=24)
    assert "The question" not in screen(short, height=24)
    prints = replace(PRINTS, code="x = 1\n" * 20 + PRINTS.code)
    shown = screen(press(quizzing(progress, prints), "0", "enter"), height=24)
    assert (shown.count(PRINTS.ask), shown.count("\nThe question\n")) == (1, 1)
    assert shown.index("The question") < shown.index("x = 1")
    prints = replace(prints, ask=PRINTS.ask + " Nobody fails." * 45)  # with the verdict, only its code does not fit
    shown = screen(press(quizzing(progress, prints), "0", "enter"), height=24)
    assert (shown.count(PRINTS.ask), " ".join(shown.split()).count("Nobody fails.")) == (1, 45)


def test_what_is_said_about_a_key_stands_above_the_keys(progress):
    console = style.console(io.StringIO(), width=80)
    console.print(press(quizzing(progress, PRINTS), "enter").foot(80))
    assert console.file.getvalue().startswith("Type what is printed.\n> _ \n")


def test_code_is_shown_as_it_is(progress):
    assert "  x = torch.tensor([1.0, float(rank)])\n  dist.all_reduce(x)\n" in screen(quizzing(progress, PRINTS))


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.SPOT])  # where arrows mark a line
def test_a_key_that_means_nothing_changes_nothing(kind):
    (question,) = (one for one in QUESTIONS if one.kind is kind)
    for key in ("up", "tab", "9", "ctrl+a", "é" if kind in (Kind.CHOICE, Kind.CHOICES) else "f5"):
        entry = Entry().key(key, question)
        assert (entry.text, entry.given) in (("", False), ("9", False))  # a digit belongs to a number or a text


def test_the_first_verdict_says_what_its_percentages_are_and_later_ones_on_the_page_of_keys(progress):
    seat = press(quizzing(progress, BYTES, PHASES, STEPS), "1", "enter", "1", "enter", "enter", *"7", "enter", "enter")
    verdict = """\
Verdict on "The ring"
  Based on 3 answers: probably 2–44% (weak)
  Even right answers to all the other questions would not make you strong here;
  hard ones count most.

"""
    legend = """\
What the percentages mean
  The range says how much of a concept you probably know (with 80% certainty).
  It is based on your latest answers in tests and before demos, and on the labs
  that you passed. Answers in lessons do not count.
  Strong: the range begins at 70% or more, and of the hard questions that were
  asked, at least half were right. Weak: it ends at 50% or less. Fair: neither,
  and it lies between 35 and 85%. A range that only begins there is fair to
  strong, one that only ends there weak to fair; any other has no verdict yet.
"""
    shown = screen(seat)
    assert shown.index(verdict) < shown.index("Next\n") < shown.index(legend), "what to do next is on the first page"
    assert legend in screen(press(seat, "?"))
    later = press(quizzing(progress, BYTES, BYTES), "1", "enter", "1")
    assert "percentages mean" not in screen(press(later, "?"))
    press(later, "?", "enter", "2", "enter")
    assert "%" in screen(later)
    assert "percentages mean" not in screen(later)
    assert legend in screen(press(later, "?"))


def test_a_wrong_answer_makes_a_card_due_and_looking_back_changes_nothing(progress):
    seat = press(quizzing(progress), "1")
    assert list(progress.memories()) == ["ring/two"]
    press(seat, "u", "enter", "u")
    assert list(progress.memories()) == ["ring/two"]
    assert len(progress.entries("answer")) == 1


def test_the_demo_and_the_proof_lead_back_to_the_question(progress):
    seat = press(quizzing(progress), "p", "d")
    assert seat.context.ranks.started == ["allreduce"]  # the proof would tell the answer
    before = screen(press(seat, "2"))
    assert screen(press(seat, "p")) == before
    assert seat.context.ranks.started == ["allreduce", "ring/bytes"]


@pytest.mark.parametrize("seed", range(4))
def test_every_kind_can_be_answered_right_with_keys(progress, seed):
    for question in QUESTIONS:
        seat = quizzing(progress, question, seed=seed)
        answer = expected(seat.quiz.posed).removesuffix(" bytes")
        keys = (
            answer.split()
            if question.kind in (Kind.CHOICES, Kind.ORDER)
            else ["space" if c == " " else c for c in answer]
        )
        press(seat, *keys, *([] if question.kind is Kind.CHOICE else ["enter"]))
        assert seat.quiz.answer.credit == 1


def test_questions_without_code_load_no_highlighter():
    import subprocess

    script = "import ddpquiz.terminal.sittings.quiz_screen, ddpquiz.terminal.sittings.study_screen, sys; sys.exit(any('pygments' in m or 'markdown' in m or m == 'torch' for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


KNOWN = loading.load()


@pytest.mark.case("drawn questions", lambda concept: passed.page_of(concept, KNOWN))
@pytest.mark.parametrize("concept", [concept.id for concept in KNOWN.concepts])
def test_every_shipped_question_can_be_drawn_answered_and_is_wrong_for_its_traps(progress, concept):
    for question in KNOWN.concept(concept).questions:
        for seed, width in enumerate((40, 80)):
            seat = quizzing(progress, question, seed=seed)
            seat.context = context(progress, concepts=(KNOWN.concept(concept),))
            posed = seat.quiz.posed
            assert judge(posed, expected(posed)).right, question.key
            for trap in posed.question.traps:
                verdict = judge(posed, trap.answer)
                assert (verdict.right, verdict.unclear) == (False, ""), (question.key, trap.answer)
                assert verdict.whys, (question.key, trap.answer)
            assert "Question 1/1" in screen(seat, width)
            judged = quiz.step(seat.quiz, Given(expected(posed)), seat.context.clock())[0].answer
            console = style.console(io.StringIO(), width=width)
            console.print(*question_view.judged(judged))
            assert max(map(len, console.file.getvalue().split("\n"))) <= width, question.key


def test_a_digit_that_is_no_option_says_which_there_are(progress):
    assert "There is no option 7; choose from 1 to 4.\n" in screen(press(quizzing(progress, BYTES), "7"))


def test_the_end_offers_the_proof_of_the_last_answer(progress):
    seat = press(quizzing(progress, PHASES, BYTES), "x", "enter", "2", "enter")
    assert " · p calculation · d demo · ? help" in screen(seat)
    press(seat, "p")
    assert len(seat.context.ranks.started) == 1
    assert "Done: " in screen(seat)
    assert " p " not in screen(press(quizzing(progress, PHASES), "x", "enter")), "the last answer has no proof"
