"""The end of a quiz on the screen: the score, what to do next, and a retry."""

import io
import random
from datetime import timedelta

import pytest
from inline_snapshot import snapshot
from sample import BYTES, HOOKS, PHASES, PRINTS, START, STEPS
from sample_sittings import press, quizzing, screen

from ddpquiz.curriculum.loading import load
from ddpquiz.curriculum.posed_question import pose
from ddpquiz.learning import mastery
from ddpquiz.learning.judge import Verdict
from ddpquiz.learning.log_rows import LabRow
from ddpquiz.learning.mastery import Label, Strength
from ddpquiz.learning.quiz import Answer, Quiz, Rules
from ddpquiz.learning.schedule import study_day
from ddpquiz.terminal.kit import layout, style
from ddpquiz.terminal.sittings.quiz_result import QuizCommand, QuizResult, result


def test_quitting_shows_the_score_and_how_to_go_on(progress):
    seat = press(quizzing(progress, BYTES, STEPS, about="ring"), "2", "enter", "escape", "q")
    assert screen(seat).startswith("Done: 1 of 1 right, 1 not answered.\n")
    assert "Next\n  ddpquiz test ring  ask more; 1 question had no answer\n" in screen(seat)
    assert screen(press(seat, "u")).startswith("Question 2/2")


def test_quitting_a_second_try_names_the_command_that_asks_the_same_again(progress):
    seat = press(quizzing(progress, BYTES, STEPS, about="ring"), "1", "enter", *"1800", "enter", "enter", "w")
    assert "\n  ddpquiz test ring --wrong  go on: 1 question not answered yet\n" in screen(press(seat, "s"))


def test_without_an_answer_there_is_no_summary(progress):
    seat = press(quizzing(progress, BYTES, STEPS), "s", "escape", "q")
    console = style.console(io.StringIO(), width=80)
    layout.show(console, seat.summary())
    assert (seat.left, console.file.getvalue().strip()) == (True, "")


def test_what_comes_next_keeps_the_concept_and_is_harder_only_when_all_was_right(progress):
    seat = press(quizzing(progress, BYTES, about="ring"), "2", "enter")
    assert "Next\n  ddpquiz test ring --level hard  harder ones\n" in screen(seat)
    seat = press(quizzing(progress, BYTES, PHASES), "2", "enter", "s")
    assert "harder" not in screen(seat)
    assert "harder" not in screen(press(quizzing(progress, PRINTS), *"4,6", "enter", "enter"))  # ddp has no hard ones


def test_what_was_said_about_an_answer_is_not_said_on_the_last_screen(progress):
    seat = press(quizzing(progress, BYTES, HOOKS), "1", "enter", "3", "enter")
    assert "Give each number" in screen(seat)
    shown = screen(press(seat, "escape", "q"))
    assert shown.startswith("Done: ")
    assert "Give each number" not in shown


def test_a_test_about_several_concepts_names_them_by_their_titles(progress):
    shown = screen(press(quizzing(progress, BYTES, HOOKS), "1", "enter", "1", "3", "2", "enter", "q"))
    assert "\nBy concept\n  The ring  0 of 1 right  no verdict yet\n  DDP " in shown


def by_concept(quiz, strengths, width):
    """The table "By concept" of a result, as lines."""
    concepts = {concept.id: concept for concept in load().concepts}
    done = QuizResult(
        quiz=quiz,
        again=None,
        strengths=strengths,
        made_due=0,
        concepts=concepts,
        command=QuizCommand(),
        explained=False,
        inside=False,
    )
    console = style.console(io.StringIO(), width=width)
    layout.show(console, result(done))
    return console.file.getvalue().partition("\nBy concept\n")[2].partition("\n\n")[0].splitlines()


@pytest.mark.parametrize("exam", [False, True], ids=["quiz", "exam"])
@pytest.mark.parametrize("label", [*Label, None])
def test_the_verdict_on_each_shipped_concept_is_whole_on_a_narrow_terminal(label, exam):
    concepts, dice = load().concepts, random.Random(1)
    asked = [[pose(question, dice) for question in one.questions[:10] * 2][:12] for one in concepts]
    answers = [
        Answer(posed, "", Verdict(right=True), START, timedelta(0), hints=number == 0)
        for each in asked
        for number, posed in enumerate(each[:10])
    ]
    everything = tuple(posed for each in asked for posed in each)
    quiz = Quiz(everything, START, START, stopped=True, rules=Rules(exam=exam), answers=tuple(answers))
    known = Strength(0.5, 0.18, 1.0, label or Label.UNKNOWN, 3 if label else 1)
    lines = by_concept(quiz, {one.id: known for one in concepts}, 80)
    score = f"10 of {12 if exam else 10} right, 9.5 earned"
    ends = [line for line in lines if line.endswith(f"  {score}  {known.short}")]
    assert len(ends) == len(concepts)
    assert " ".join(" ".join(line.split(score)[0] for line in lines).split()) == " ".join(one.title for one in concepts)


def test_a_quiz_that_was_left_early_says_once_how_many_questions_have_no_answer():
    concepts, dice = load().concepts[:2], random.Random(1)
    asked = tuple(pose(question, dice) for one in concepts for question in one.questions[:3])
    answers = (Answer(asked[0], "", Verdict(right=True), START, timedelta(0)),)
    lines = by_concept(Quiz(asked, START, START, stopped=True, answers=answers), {}, 80)
    assert [line.split("  ")[-1] for line in lines] == ["1 of 1 right", "3 not answered"]


def test_the_end_shows_the_score_by_concept_and_level_and_what_to_do_next(progress):
    seat = press(quizzing(progress, BYTES, STEPS, about="ring"), "1", "enter", *"1800", "enter", "enter")
    assert screen(seat) == (
        snapshot("""\
Done: 1 of 2 right.

Verdict on "The ring"
  no verdict yet
  A verdict takes 3 answers or more.

Next
  ddpquiz test ring --wrong  answer again what you got wrong
  ddpquiz learn ring         read about what you missed
  ddpquiz study              1 card became due because of these answers

By level
  medium  0 of 1 right
  hard    1 of 1 right

enter leave · w wrong ones again · u look back · d demo · ? help\
""")
    )


def test_a_retry_asks_what_was_wrong_and_does_not_count_for_the_strength(progress):
    seat = press(quizzing(progress, BYTES, STEPS), "1", "enter", *"1800", "enter", "enter", "w")
    assert screen(seat).startswith("Question 1/1 · once more · medium · The ring\n")
    seat = press(seat, "2", "enter")
    assert screen(seat).startswith("Done: 1 of 2 right.\nOnce more: 1 of 1 right. It does not count for the verdict.\n")
    assert "no verdict yet" in screen(seat)
    assert "--wrong" not in screen(seat)
    assert [row.retry for row in progress.entries("answer")] == [False, False, True]


def test_on_the_last_screen_the_last_verdict_can_be_looked_at_again(progress):
    seat = press(quizzing(progress, BYTES), "1", "enter")
    assert screen(press(seat, "u")).startswith("Question 1/1 · looking back")
    assert screen(press(seat, "enter")).startswith("Done: 0 of 1 right.")
    assert len(progress.entries("answer")) == 1


def test_the_first_hint_of_a_retry_is_about_the_answer_that_was_wrong(progress):
    seat = quizzing(progress, BYTES)
    wrong = next(row.split()[0] for row in screen(seat).splitlines() if row.endswith("3,600 bytes"))
    press(seat, wrong, "enter", "w", "h")
    assert 'Hint 1  Last time you answered "3,600 bytes". A root would send that much.' in screen(seat)
    assert "Hint 2  How large is a chunk?" in screen(press(seat, "h"))


def test_what_was_chosen_when_the_quiz_was_stopped_is_not_chosen_in_a_retry(progress):
    seat = press(quizzing(progress, PHASES, STEPS), "1", "enter", "enter", *"18", "escape", "q")
    assert seat.quiz.posed is None
    assert "[x]" not in screen(press(seat, "w"))
    assert seat.entry.text == ""


def test_a_retry_uses_the_random_numbers_of_the_quiz(progress):
    one, two = (quizzing(progress, STEPS, seed=5) for _ in range(2))
    assert one.quiz.asked == two.quiz.asked
    assert isinstance(one._dice, random.Random)


def test_the_verdict_counts_a_lab_that_was_passed_as_home_and_stats_do(progress):
    progress.lab(LabRow(item="ring/ring-lab", passed=True), START)
    seat = press(quizzing(progress, BYTES, STEPS), "1", "enter", *"1800", "enter", "enter")
    everywhere = mastery.strengths(progress.last_answers(), study_day(START))["ring"]
    assert str(everywhere) in screen(seat)
    assert everywhere.answers == len({row.item for row in progress.entries("answer")}) + 1
