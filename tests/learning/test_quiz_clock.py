"""A quiz with a clock: an answer counts if it was given in time."""

import random
from dataclasses import replace
from datetime import timedelta

import pytest
from run_program import log, piped, sample
from sample import BYTES, HOOKS, PHASES, START, STEPS
from sample_sittings import play, press, quizzing, right, screen

from ddpquiz.curriculum.posed_question import expected
from ddpquiz.learning.quiz import QuizAction, Rules, TimeUp, begin, step
from ddpquiz.learning.quiz_scores import scores
from ddpquiz.terminal.sittings import question_view

TIMED = Rules(timed=timedelta(seconds=30))


def quiz(rules, *questions):
    return begin(questions or (BYTES, PHASES), random.Random(0), START, rules=rules)


def test_the_clock_runs_until_an_answer():
    state = quiz(TIMED)
    assert state.left(START + timedelta(seconds=10)) == timedelta(seconds=20)
    assert state.left(START + timedelta(seconds=40)) == timedelta(0)
    state = play(state, right(state))
    assert state.left(START) is None
    state = play(state, QuizAction.NEXT)
    assert state.left(state.since) == timedelta(seconds=30)
    assert quiz(Rules()).left(START) is None


def test_a_question_without_an_answer_in_time_counts_as_unanswered_and_its_solution_is_shown():
    start = quiz(TIMED)
    state = play(start, TimeUp())
    assert (state.judged, state.answer.late, state.answers, state.missed, state.late) == (True, True, (), (), {0})
    assert step(start, TimeUp(), START)[1] == (None, None)
    assert (scores(state, "")[""].answered, scores(state, "")[""].asked) == (0, 2)
    assert play(state, QuizAction.NEXT).place == 1


def test_what_stands_there_when_the_time_is_over_is_the_answer():
    start = quiz(TIMED)
    state = play(start, TimeUp(expected(start.posed)))
    assert (state.answer.right, state.answer.late, state.answer.credit, len(state.answers)) == (True, True, 1.0, 1)
    assert play(start, TimeUp("what?")).answers == ()
    assert not play(start, TimeUp("what?")).unclear


def test_a_question_whose_time_was_over_is_not_asked_again():
    state = play(quiz(TIMED), TimeUp())
    assert play(state, QuizAction.UNDO) == state
    state = play(state, QuizAction.NEXT)
    assert play(state, QuizAction.UNDO) == state


def test_no_clock_is_stopped_by_looking_back():
    state = quiz(TIMED)
    state = play(state, right(state), QuizAction.NEXT)
    assert play(state, QuizAction.UNDO) == state
    state = play(state, right(state))
    assert play(state, QuizAction.UNDO).number == 1


def test_with_a_clock_there_is_no_way_back_to_what_was_skipped():
    assert play(quiz(TIMED), QuizAction.SKIP, QuizAction.UNDO).place == 1
    state = quiz(replace(TIMED, confidence=True))
    assert play(
        state, right(state), QuizAction.UNDO
    ).pending  # the quiz asks how sure the learner is; otherwise the clock would start again


@pytest.mark.parametrize(
    ("seconds", "shown", "change"), [(90, "1:30 left", 1.0), (12.4, "13 s left", 0.4), (0.3, "1 s left", 0.3)]
)
def test_the_clock_is_painted_when_it_shows_something_else(seconds, shown, change):
    assert question_view.remaining(timedelta(seconds=seconds)).plain == shown
    assert question_view.until_change(timedelta(seconds=seconds)) == pytest.approx(change)


def test_the_clock_is_on_screen_and_the_end_of_the_time_is_announced(progress):
    seat = quizzing(progress, BYTES, PHASES, rules=TIMED)
    seat.context.clock.tick = timedelta(0)
    assert "30 s left\n1-4 answer · h hint (2) · x solution · s skip · f flag · ? help · q quit" in screen(seat)
    assert not seat.tick()
    seat.context.clock.at += timedelta(seconds=31)
    assert seat.tick()
    assert "Time is up, without an answer. Take your time to read the solution.\n" in screen(seat)
    assert "✓ 2  1,800 bytes" in screen(seat)
    assert progress.log() == []
    assert "30 s left" in screen(press(seat, "enter"))


def run_out(seat):
    seat.context.clock.at += timedelta(seconds=31)
    assert seat.tick()
    return seat


def test_what_was_typed_counts_when_the_time_is_over(progress):
    seat = quizzing(progress, STEPS, HOOKS, rules=TIMED)
    seat.context.clock.tick = timedelta(0)
    press(seat, *"1800")
    assert "Time is up: what you had entered is your answer. ✓ Right.\n" in screen(run_out(seat))
    press(seat, "enter")
    assert "Time is up, without an answer. " in screen(run_out(seat))
    assert [answer.right for answer in seat.quiz.answers] == [True]
    assert "Time was up on 2 questions.\n" in screen(press(seat, "enter"))


def test_with_confidence_the_end_of_the_time_asks_how_sure_and_the_clock_stays_off(progress):
    seat = quizzing(progress, STEPS, rules=replace(TIMED, confidence=True))
    seat.context.clock.tick = timedelta(0)
    shown = screen(run_out(press(seat, *"1800")))
    assert "Time is up: what you had entered is your answer.\n" in shown
    assert "1 wrong 0% · 2 unsure 50%" in shown
    assert " left" not in shown
    assert "what you had entered is your answer. ✓ Right.\n" in screen(press(seat, "4"))


def test_while_the_clock_runs_no_demo_stops_it(progress):
    seat = press(quizzing(progress, BYTES, rules=TIMED), "d")
    assert seat.context.ranks.started == []
    press(seat, "2", "d")
    assert seat.context.ranks.started == ["allreduce"]


def test_the_time_of_a_question_ends_in_a_terminal(home):
    terminal = sample(home, "test", "ring", "--kind", "choice", "--timed", "5")
    terminal.wait("5 s left|4 s left")
    terminal.wait("Time is up", seconds=30)
    terminal.press("\r", "Done: 1 not answered")
    terminal.press("q")
    assert terminal.end() == 0
    assert log(home) == []


def test_a_time_limit_beyond_a_day_is_a_day(home):
    terminal = sample(home, "test", "ring", "--timed", "9" * 30)
    terminal.wait("Question 1/3", "^(1440:00|1439:[0-9]{2}) left")
    terminal.press("\x03")
    assert terminal.end() == 130


def test_a_pipe_has_no_clock(home):
    done = piped(home, "test", "ring", "--kind", "number", "--timed", "5", lines="1800\n")
    assert "Done: 1 of 1 right." in done.stdout
    assert " left" not in done.stdout
