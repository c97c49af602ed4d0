"""A quiz with a clock, one that asks how sure the learner is, and one that chooses what tells most."""

import json
import random
import re
from dataclasses import replace
from datetime import timedelta

import pytest
from program import LEAVE_SCREEN, log, piped, sample
from sample import BYTES, HOOKS, PHASES, PRINTS, START, STEPS
from seats import play, press, quizzing, right, screen, spoken

from ddpquiz.curriculum.concept import Level
from ddpquiz.curriculum.posed import pose
from ddpquiz.learning import mastery, question_selection
from ddpquiz.learning.judge import chance, expected
from ddpquiz.learning.quiz import Given, Late, QuizAction, Rules, SetSureness, begin, news
from ddpquiz.learning.quiz_scores import scores
from ddpquiz.terminal.sittings import question_view

TIMED = Rules(timed=timedelta(seconds=30))
CONFIDENT = Rules(confidence=True)


def quiz(rules, *questions):
    return begin(questions or (BYTES, PHASES), random.Random(0), START, rules=rules)


def wrong(state):
    return Given("2" if expected(state.posed) == "1" else "1")


# The clock


def test_the_clock_runs_until_an_answer():
    state = quiz(TIMED)
    assert state.left(START + timedelta(seconds=10)) == timedelta(seconds=20)
    assert state.left(START + timedelta(seconds=40)) == timedelta(0)
    state = play(state, right(state))
    assert state.left(START) is None
    state = play(state, QuizAction.NEXT)
    assert state.left(state.since) == timedelta(seconds=30)
    assert quiz(Rules()).left(START) is None


def test_no_answer_in_time_is_no_answer_and_its_solution_is_shown():
    start = quiz(TIMED)
    state = play(start, Late())
    assert (state.judged, state.answer.late, state.answers, state.missed, state.late) == (True, True, (), (), {0})
    assert news(start, state) == (None, None)
    assert (scores(state, "")[""].answered, scores(state, "")[""].asked) == (0, 2)
    assert play(state, QuizAction.NEXT).place == 1


def test_what_stands_there_when_the_time_is_over_is_the_answer():
    start = quiz(TIMED)
    state = play(start, Late(expected(start.posed)))
    assert (state.answer.right, state.answer.late, state.answer.credit, len(state.answers)) == (True, True, 1.0, 1)
    assert play(start, Late("what?")).answers == ()
    assert not play(start, Late("what?")).unclear


def test_a_question_whose_time_was_over_is_not_asked_again():
    state = play(quiz(TIMED), Late())
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
    assert play(state, right(state), QuizAction.UNDO).pending  # asked how sure one is: the clock would begin anew


@pytest.mark.parametrize(
    ("seconds", "shown", "change"), [(90, "1:30 left", 1.0), (12.4, "13 s left", 0.4), (0.3, "1 s left", 0.3)]
)
def test_the_clock_is_painted_when_it_shows_something_else(seconds, shown, change):
    assert question_view.remaining(timedelta(seconds=seconds)).plain == shown
    assert question_view.until_change(timedelta(seconds=seconds)) == pytest.approx(change)


def test_the_clock_is_on_screen_and_the_end_of_time_is_told_kindly(progress):
    seat = quizzing(progress, BYTES, PHASES, rules=TIMED)
    seat.desk.clock.tick = timedelta(0)
    assert "30 s left\n1-4 answer · h hint (2) · x solution · s skip · f flag · ? help · q quit" in screen(seat)
    assert not seat.tick()
    seat.desk.clock.at += timedelta(seconds=31)
    assert seat.tick()
    assert "Time is up, without an answer. Take your time to read the solution.\n" in screen(seat)
    assert "✓ 2  1,800 bytes" in screen(seat)
    assert progress.log() == []
    assert "30 s left" in screen(press(seat, "enter"))


def run_out(seat):
    seat.desk.clock.at += timedelta(seconds=31)
    assert seat.tick()
    return seat


def test_what_was_typed_counts_when_the_time_is_over(progress):
    seat = quizzing(progress, STEPS, HOOKS, rules=TIMED)
    seat.desk.clock.tick = timedelta(0)
    press(seat, *"1800")
    assert "Time is up: what you had entered is your answer. ✓ Right.\n" in screen(run_out(seat))
    press(seat, "enter")
    assert "Time is up, without an answer. " in screen(run_out(seat))
    assert [answer.right for answer in seat.quiz.answers] == [True]
    assert "Time was up on 2 questions.\n" in screen(press(seat, "enter"))


def test_with_confidence_the_end_of_time_asks_how_sure_and_keeps_the_clock_off(progress):
    seat = quizzing(progress, STEPS, rules=replace(TIMED, confidence=True))
    seat.desk.clock.tick = timedelta(0)
    shown = screen(run_out(press(seat, *"1800")))
    assert "Time is up: what you had entered is your answer.\n" in shown
    assert "1 guess 0% · 2 unsure 50%" in shown
    assert " left" not in shown
    assert "what you had entered is your answer. ✓ Right.\n" in screen(press(seat, "4"))


def test_while_the_clock_runs_no_demo_stops_it(progress):
    seat = press(quizzing(progress, BYTES, rules=TIMED), "d")
    assert seat.desk.actions.started == []
    press(seat, "2", "d")
    assert seat.desk.actions.started == ["allreduce"]


def test_the_time_of_a_question_ends_in_a_terminal(home):
    terminal = sample(home, "test", "ring", "--kind", "choice", "--timed", "5")
    terminal.wait("5 s left|4 s left")
    terminal.wait("Time is up", seconds=30)
    terminal.press("\r", "Done: 1 not answered")
    terminal.press("q")
    assert terminal.end() == 0
    assert log(home) == []


def test_a_time_beyond_the_end_of_time_is_a_day(home):
    terminal = sample(home, "test", "ring", "--timed", "9" * 30)
    terminal.wait("Question 1/3", "^(1440:00|1439:[0-9]{2}) left")
    terminal.press("\x03")
    assert terminal.end() == 130


def test_a_pipe_has_no_clock(home):
    done = piped(home, "test", "ring", "--kind", "number", "--timed", "5", lines="1800\n")
    assert "Done: 1 of 1 right." in done.stdout
    assert " left" not in done.stdout


# How sure


def test_sureness_is_asked_for_between_the_answer_and_its_verdict():
    start = quiz(CONFIDENT)
    state = play(start, right(start))
    assert (state.judged, state.answers) == (False, ())
    assert play(state, QuizAction.SKIP, QuizAction.HINT, Given("1")) == state
    judged = play(state, SetSureness(0.75))
    assert (judged.judged, judged.answer.confidence, judged.answer.right) == (True, 0.75, True)
    assert play(judged, QuizAction.UNDO).pending is None
    assert play(state, QuizAction.UNDO) == replace(start, since=play(state, QuizAction.UNDO).since)


def test_a_key_says_how_sure_and_the_end_tells_how_that_went(progress):
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
  Brier score 0.58: 0 is perfect, always saying 50 % gives 0.25.
""" in screen(seat)
    assert [(row.credit, row.confidence) for row in progress.entries("answer")] == [(0.0, 0.95), (1.0, 0.5)]


def test_who_leaves_when_asked_how_sure_they_are_has_answered(progress):
    seat = press(quizzing(progress, BYTES, PHASES, rules=CONFIDENT), "2", "q")
    assert screen(seat).startswith("Done: 1 of 1 right")
    assert [(row.credit, row.confidence) for row in progress.entries("answer")] == [(1.0, None)]


def test_overconfidence_is_told_after_enough_answers(progress):
    seat = quizzing(progress, *[replace(BYTES, id=f"b{number}") for number in range(10)], rules=CONFIDENT)
    for _ in range(10):
        press(seat, expected(seat.quiz.posed) if len(seat.quiz.answers) < 5 else "1", "4", "enter")
    shown = " ".join(screen(seat).split())
    share = sum(answer.right for answer in seat.quiz.answers) * 10
    assert share <= 80
    assert f"You were surer than you were right: said 95% on average, right {share}%." in shown


def test_what_was_answered_is_told_with_its_unit_before_its_verdict(progress):
    seat = press(quizzing(progress, STEPS, rules=CONFIDENT), *"3600/2", "enter")
    assert "You answered 3600/2 bytes = 1800 bytes. How sure are you" in screen(seat)
    assert screen(seat).endswith("1 guess 0% · 2 unsure 50% · 3 fairly 75% · 4 sure 95% · u undo · ? help · q quit")


def test_before_the_verdict_nothing_tells_whether_an_output_is_right(progress):
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


def test_in_a_pipe_the_line_after_an_answer_that_is_none_is_not_the_next_answer(progress, capsys):
    seat = quizzing(progress, BYTES, PHASES, STEPS, rules=CONFIDENT, final=True)
    spoken(seat, "all", "3", "", "1800", "4")  # an empty line skips, and nothing is said of that
    assert [(row.item, row.confidence) for row in progress.entries("answer")] == [("ring/steps", 0.95)]
    assert seat.unread.keys() == {"ring/bytes"}
    assert capsys.readouterr().err.count("cannot be read") == 1


# What tells most


def pool(dice, size=30):
    made = []
    for number in range(size):
        question = (BYTES, STEPS, PHASES, HOOKS)[number % 4]
        question = replace(question, concept="c", id=f"q{number}", level=tuple(Level)[number % 3])
        made.append(pose(question, dice))
    return made


def asked_until_clear(ability, dice, order):
    """Return how many questions it took until a verdict was clear, at most all."""
    left, asked, answers = pool(dice), [], []
    dice.shuffle(left)
    while True:
        posed = question_selection.most_informative(left, asked, answers) if order == "adaptive" else left[len(asked)]
        asked.append(posed)
        question = posed.question
        knows = dice.random() < ability ** {"easy": 0.5, "medium": 1, "hard": 2}[question.level]
        answers.append((question, float(knows or dice.random() < chance(question))))
        if len(asked) == len(left) or question_selection.most_informative(left, asked, answers) is None:
            return len(asked)


def test_it_needs_fewer_questions_than_a_random_order_does():
    dice = random.Random(7)
    abilities = [dice.random() for _ in range(120)]

    def mean(order):
        dice = random.Random(8)
        return sum(asked_until_clear(ability, dice, order) for ability in abilities) / len(abilities)

    assert mean("adaptive") < 0.95 * mean("random")


def test_it_asks_each_question_once_and_stops_at_the_count():
    state = begin([one.question for one in pool(random.Random(1))], random.Random(1), START, rules=Rules(adaptive=4))
    for number in range(4):
        assert len(state.asked) == number + 1
        state = play(state, (right if number % 2 else wrong)(state), QuizAction.NEXT)
    assert state.posed is None
    assert len({posed.question.key for posed in state.asked}) == 4


def test_it_stops_when_the_verdict_is_clear():
    state = begin([one.question for one in pool(random.Random(1))], random.Random(1), START, rules=Rules(adaptive=15))
    while state.posed:
        state = play(state, right(state), QuizAction.NEXT)
    belief = mastery.Belief()
    for answer in state.answers:
        belief = belief.after(answer.posed.question.level, chance(answer.posed.question), answer.credit)
    assert belief.label(len(state.answers)) is mastery.Label.STRONG
    assert 3 <= len(state.answers) < 10


def test_undo_takes_the_pick_back_too():
    first = begin([BYTES, PHASES, STEPS], random.Random(1), START, rules=Rules(adaptive=3))
    second = play(first, QuizAction.SKIP)
    assert len(second.asked) == 2
    assert play(second, QuizAction.UNDO).asked == first.asked


def test_concepts_are_asked_about_in_turn():
    state = begin([BYTES, PHASES, HOOKS, PRINTS], random.Random(1), START, rules=Rules(adaptive=4))
    for _ in range(2):
        state = play(state, right(state), QuizAction.NEXT)
    assert {posed.question.concept for posed in state.asked[:2]} == {"ring", "ddp"}


def test_an_adaptive_quiz_says_how_many_it_may_be(progress):
    seat = quizzing(progress, BYTES, PHASES, STEPS, rules=Rules(adaptive=3))
    assert re.match(r"Question 1 of at most 3 · \w+ · ring\n", screen(seat))


def test_what_was_missed_is_not_picked_by_what_tells_most(home):
    done = piped(home, "test", "--adaptive", "--wrong")
    assert done.returncode == 2
    assert (
        "--adaptive chooses the most informative questions, --wrong those you missed; leave one of them out"
        in " ".join(re.sub("[│|]", " ", done.stderr).split())
    )


# What is asked again


def test_what_was_answered_today_waits_until_all_was_asked(home):
    first = json.loads(piped(home, "test", "ring", "--count", "1", "--json", lines="1\n").stdout)
    done = first["questions"][0]["item"]
    again = piped(home, "test", "ring")
    assert "1 answered earlier today; going on with the rest.\nQuestion 1/2" in again.stdout
    rest = json.loads(piped(home, "test", "ring", "--json", lines="1\n1\n").stdout)
    assert {done, *(each["item"] for each in rest["questions"])} == {"ring/bytes", "ring/phases", "ring/steps"}
    assert (len(rest["questions"]), rest["answered"]) == (2, 2)
    assert json.loads(piped(home, "test", "ring", "--json").stdout)["asked"] == 3  # all were: from the beginning
    assert json.loads(piped(home, "test", "--seed", "1", "--json").stdout)["asked"] == 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--count", "0"], "`0` is not possible; a test has one question or more, as in --count 10."),
        (["--count", "ten"], "`ten` is not possible; a test has one question or more, as in --count 10."),
        (["--timed", "abc"], "`abc` is not possible; a question has 5 seconds or more, as in --timed 60."),
        (["--timed", "3"], "`3` is not possible; a question has 5 seconds or more, as in --timed 60."),
    ],
)
def test_a_number_that_will_not_do_is_told_with_one_that_does(home, words, said):
    done = piped(home, "test", *words)
    assert done.returncode == 2
    assert said in " ".join(re.sub("[│|]", " ", done.stderr).split())


def test_a_track_that_is_named_as_a_concept_is_told_how_to_be_named(home):
    done = piped(home, "test", "collectives")
    assert (done.returncode, done.stderr) == (1, "collectives is a track: ddpquiz test --track collectives\n")


def test_what_comes_next_keeps_the_words_that_say_what_is_asked_about(home):
    said = piped(home, "test", "--track", "collectives", "--kind", "number", lines="7\n").stdout
    assert "\n  ddpquiz test --track collectives --kind number --wrong  " in said


# From end to end


def test_a_hint_is_in_sight_on_a_small_terminal(home):
    terminal = sample(home, "test", "ring", "--kind", "choice", height=12)
    terminal.wait("Question 1/1")
    terminal.press("h", "Hint 1  How large is a chunk")
    terminal.press("h", "Hint 2  There are six steps")
    terminal.press("2", "✓ Right|✗ Wrong")
    terminal.press("q", "Done: ")
    terminal.press("q")
    assert terminal.end() == 0


def test_a_terminal_that_cannot_be_painted_has_a_prompt_and_names_the_unit(home):
    terminal = sample(home, "test", "ring", "--kind", "number", TERM="dumb")
    assert "Type a number. The unit is bytes.\n" in terminal.wait("\n>$")
    terminal.press("1800 kg\r", "Answer in bytes")
    terminal.press("1800\r", "✓ Right")
    terminal.end()


def test_all_of_it_at_once_in_a_narrow_terminal(home):
    terminal = sample(
        home, "test", "ring", "--kind", "choice", "--exam", "--confidence", "--timed", "90", "--adaptive",
        width=60, height=16, NO_COLOR="1",
    )  # fmt: skip
    terminal.wait("1:[23][0-9] left")
    terminal.press("1", "How sure are you")
    terminal.resize(14, 60)
    terminal.press("3", "Every question has an answer")
    terminal.press("q", "enter leave")
    terminal.press("q")
    assert terminal.end() == 0
    left = re.sub(r"\x1b\[[0-9;]*m|\r", "", terminal.raw.split(LEAVE_SCREEN)[-1])
    assert "said 75%" in left
    assert max(map(len, left.split("\n"))) <= 60
