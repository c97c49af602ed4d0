"""A quiz that asks how sure the learner is before it says whether an answer is right."""

import json
import random
from dataclasses import replace

from run_program import piped
from sample import BYTES, PHASES, PRINTS, START, STEPS
from sample_sittings import play, press, quizzing, right, screen, spoken

from ddpquiz.curriculum.posed_question import expected
from ddpquiz.learning.quiz import Given, QuizAction, Rules, SetConfidence, begin

CONFIDENT = Rules(confidence=True)


def quiz(rules, *questions):
    return begin(questions or (BYTES, PHASES), random.Random(0), START, rules=rules)


def test_sureness_is_asked_for_between_the_answer_and_its_verdict():
    start = quiz(CONFIDENT)
    state = play(start, right(start))
    assert (state.judged, state.answers) == (False, ())
    assert play(state, QuizAction.SKIP, QuizAction.HINT, Given("1")) == state
    judged = play(state, SetConfidence(0.75))
    assert (judged.judged, judged.answer.confidence, judged.answer.right) == (True, 0.75, True)
    assert play(judged, QuizAction.UNDO).pending is None
    assert play(state, QuizAction.UNDO) == replace(start, since=play(state, QuizAction.UNDO).since)


def test_a_key_says_how_sure_and_the_end_shows_how_well_that_fits(progress):
    seat = press(quizzing(progress, BYTES, STEPS, rules=CONFIDENT), "1")
    assert "You answered 1. How sure are you: 1 a guess, 2 unsure, 3 fairly sure, 4 sure?\n" in screen(seat)
    assert screen(seat).endswith("\n1 guess 25% · 2 unsure 50% · 3 fairly 75% · 4 sure 95% · ? help · q quit")
    assert "u undo" in screen(seat, width=90)
    assert progress.log() == []
    assert "✗ Wrong." in screen(press(seat, "9", "x", "4"))
    seat = press(seat, "enter", *"1800", "enter", "2", "enter")
    assert """\
How sure you were
  said 50%  right 1 of 1
  said 95%  right 0 of 1
  It takes 30 answers to see whether you judge yourself well. `ddpquiz stats`
  adds them up.
  Brier score 0.58: 0 is perfect, always saying 50% gives 0.25.
""" in screen(seat)
    assert [(row.credit, row.confidence) for row in progress.entries("answer")] == [(0.0, 0.95), (1.0, 0.5)]


def test_leaving_when_asked_how_sure_counts_as_an_answer(progress):
    seat = press(quizzing(progress, BYTES, PHASES, rules=CONFIDENT), "2", "q")
    assert screen(seat).startswith("Done: 1 of 1 right")
    assert [(row.credit, row.confidence) for row in progress.entries("answer")] == [(1.0, None)]


def test_overconfidence_is_shown_after_enough_answers(progress):
    seat = quizzing(progress, *[replace(BYTES, id=f"b{number}") for number in range(10)], rules=CONFIDENT)
    for _ in range(10):
        press(seat, expected(seat.quiz.posed) if len(seat.quiz.answers) < 5 else "1", "4", "enter")
    shown = " ".join(screen(seat).split())
    share = sum(answer.right for answer in seat.quiz.answers) * 10
    assert share <= 80
    assert f"You were too sure: you said 95% on average, and {share}% were right." in shown


def test_the_answer_is_shown_with_its_unit_before_its_verdict(progress):
    seat = press(quizzing(progress, STEPS, rules=CONFIDENT), *"3600/2", "enter")
    assert "You answered 3,600/2 bytes = 1,800 bytes. How sure are you" in screen(seat)
    assert screen(seat).endswith("1 wrong 0% · 2 unsure 50% · 3 fairly 75% · 4 sure 95% · u undo · ? help · q quit")


def test_before_the_verdict_nothing_shows_whether_an_output_is_right(progress):
    for typed in ("4 6", "6 4"):
        for rules in (CONFIDENT, Rules(exam=True)):
            seat = press(quizzing(progress, PRINTS, BYTES, rules=rules), *typed.replace(" ", ","), "enter")
            assert (seat.note, seat.quiz.unclear) == ("", "")
            assert seat.quiz.pending or seat.quiz.place == 1


def test_in_a_pipe_a_line_after_each_answer_says_how_sure(home):
    done = piped(home, "test", "ring", "--kind", "number", "--confidence", "--json", lines="1800\n3\n")
    result = json.loads(done.stdout)
    assert result["questions"][0]["confidence"] == 0.75
    assert result["calibration"] == {"bands": [{"said": 0.75, "answers": 1, "right": 1}], "brier": 0.0625}
    done = piped(home, "test", "ring", "--kind", "number", "--confidence", "--json", lines="1800\nmaybe\n")
    result = json.loads(done.stdout)
    assert (result["questions"][0]["confidence"], result["calibration"]) == (None, None)


def test_in_a_pipe_the_line_after_an_unreadable_answer_is_not_the_next_answer(progress, capsys):
    seat = quizzing(progress, BYTES, PHASES, STEPS, rules=CONFIDENT, final=True)
    spoken(seat, "all", "3", "", "1800", "4")  # an empty line skips without a message
    assert [(row.item, row.confidence) for row in progress.entries("answer")] == [("ring/steps", 0.95)]
    assert seat.by_lines.unread.keys() == {"ring/bytes"}
    assert capsys.readouterr().err.count("cannot be read") == 1
