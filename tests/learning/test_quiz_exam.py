"""An exam: no verdicts before its end, and until then every answer can be changed."""

import os
import random
import signal
from dataclasses import replace
from datetime import timedelta

import pytest
from inline_snapshot import snapshot
from run_program import LEAVE_SCREEN, log, sample
from sample import BYTES, HOOKS, PHASES, PRINTS, START, STEPS
from sample_sittings import play, press, quizzing, right, screen, spoken

from ddpquiz.curriculum.posed_question import expected
from ddpquiz.learning.answers import SavedAnswer
from ddpquiz.learning.log_rows import Receipt
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.quiz import Given, GoTo, QuizAction, Rules, SetConfidence, TimeUp, begin, step
from ddpquiz.learning.unfinished_exam import UnfinishedExam, forget_exam, load_exam, save_exam

EXAM = Rules(exam=True)
TIMED = Rules(exam=True, timed=timedelta(seconds=30))


def exam(*questions, rules=EXAM):
    return begin(questions or (BYTES, PHASES), random.Random(0), START, rules=rules)


def wrong(state):
    return Given("2" if expected(state.posed) == "1" else "1")


def test_an_exam_shows_no_verdict_and_gives_no_hint_and_no_solution():
    state = play(exam(), QuizAction.HINT, QuizAction.GIVE_UP)
    assert (state.hints, state.place, state.answers) == (0, 0, ())
    state = play(state, wrong(state))
    assert (state.place, state.judged, len(state.answers)) == (1, False, 1)


def test_an_answer_stays_while_the_learner_goes_back_and_forward_until_another_one_replaces_it():
    state = exam()
    state = play(state, wrong(state), QuizAction.UNDO)
    assert (state.place, state.given.right) == (0, False)
    state = play(state, QuizAction.SKIP, QuizAction.UNDO)
    assert (state.given.right, len(state.answers)) == (False, 1)
    state = play(state, right(state), Given("1"))
    assert (state.overview, state.over, [answer.right for answer in state.answers]) == (True, False, [True, False])
    state = play(state, GoTo(0), wrong(state := play(state, GoTo(0))))
    assert sorted(answer.right for answer in state.answers) == [False, False]


def test_the_overview_knows_what_is_open_and_the_end_is_final():
    state = play(exam(BYTES, PHASES, BYTES), QuizAction.SKIP, Given("1"), QuizAction.OVERVIEW)
    assert (state.overview, state.open) == (True, (0, 2))
    ended = play(state, QuizAction.STOP)
    assert ended.over
    assert play(ended, QuizAction.UNDO, GoTo(0), Given("1"), TimeUp("1")) == ended


def test_the_same_answer_again_goes_on_and_changes_nothing():
    state = play(exam(), Given("1"))
    again = play(state, QuizAction.UNDO, Given("1"))
    assert (again.place, again.answers) == (1, state.answers)
    assert step(play(state, QuizAction.UNDO), Given("1"), START)[1] == (None, None)


def test_the_log_learns_what_replaced_what():
    state = play(exam(BYTES, PRINTS), Given("1"))
    back = play(state, QuizAction.UNDO)
    assert step(state, QuizAction.UNDO, START)[1] == (None, None)
    changed, change = step(back, Given("2"), START)
    assert change == (changed.answers[0], state.answers[0])


def test_a_timed_exam_has_the_time_of_all_its_questions_and_can_be_gone_through_while_there_is_time():
    state = exam(rules=TIMED)
    assert state.left(START + timedelta(seconds=20)) == timedelta(seconds=40)
    state = play(state, wrong(state), QuizAction.UNDO)
    assert (state.place, state.left(START + timedelta(seconds=50))) == (0, timedelta(seconds=10))
    state = play(state, right(state), TimeUp(right(state := play(state, right(state))).text))
    assert (state.over, state.late, [answer.right for answer in state.answers]) == (True, set(), [True, True])


def test_when_the_time_is_over_what_has_no_answer_is_late_and_answers_stay():
    state = exam(BYTES, STEPS, HOOKS, rules=TIMED)
    state = play(state, right(state), TimeUp("what?"))
    assert (state.over, state.late, len(state.answers)) == (True, {1, 2}, 1)
    state = exam(rules=replace(TIMED, confidence=True))
    state = play(state, right(state), TimeUp())
    assert (state.over, [answer.confidence for answer in state.answers]) == (True, [None])


def test_leaving_the_question_how_sure_counts_as_answered():
    state = exam(rules=replace(EXAM, confidence=True))
    asked = play(state, right(state))
    assert asked.pending
    assert play(asked, QuizAction.UNDO).answers == ()
    assert play(asked, SetConfidence(0.75)).answers[0].confidence == 0.75
    assert play(asked, QuizAction.OVERVIEW).answers[0].confidence is None


def test_an_adaptive_exam_chooses_on_the_way_forward_only():
    state = play(exam(BYTES, PHASES, STEPS, rules=replace(EXAM, adaptive=3)), QuizAction.SKIP)
    assert (len(state.asked), state.place) == (2, 1)
    state = play(state, QuizAction.UNDO, QuizAction.SKIP)
    assert (len(state.asked), state.place) == (2, 1)
    assert len(play(state, QuizAction.OVERVIEW).asked) == 2


def test_answers_are_changed_on_the_screen_and_in_the_log(progress):
    seat = press(quizzing(progress, BYTES, PHASES, STEPS, rules=EXAM), "1")
    assert list(progress.memories()) == ["ring/two"]
    assert screen(press(seat, "u")).startswith("Question 1/3 · exam")
    assert "Your answer is 1. You can change it.\n1-4 answer · s next · f flag · ? help · q end" in screen(seat)
    press(seat, "2")
    assert progress.memories() == {}
    assert [row.credit for row in progress.entries("answer")] == [1.0]
    press(seat, "1", "2", "enter", *"18")
    assert "[x] 1" in screen(press(seat, "escape", "u"))
    assert "> _ bytes" in screen(press(seat, "s"))  # text that was not entered does not count as an answer
    assert "> 1800_ bytes" in screen(press(seat, *"1800", "enter", "u"))


def test_the_overview_before_the_end_leads_to_what_is_open(progress):
    seat = press(quizzing(progress, BYTES, PHASES, STEPS, rules=EXAM), "1", "s", *"18", "escape", "q")
    assert screen(seat) == (
        snapshot("""\
Exam · overview

Questions without an answer: 2 of 3; they count as wrong when the exam ends.

1  ring  1,200 bytes
2  ring  no answer
3  ring  no answer
enter question 2 · 1-3 question · u back · q end the exam · ? help""")
    )
    assert screen(press(seat, "3")).startswith("Question 3/3")
    assert screen(press(seat, "escape", "q", "4", "0", "1")).startswith("Question 1/3")
    press(seat, "q")
    assert screen(press(seat, "enter")).startswith("Question 2/3")
    assert screen(press(seat, "q", "u")).startswith("Question 3/3")
    assert screen(press(seat, "escape", "q", "escape")).startswith("Question 3/3")
    assert not press(seat, "escape", "q", "q").left
    assert screen(seat).startswith("Done: 0 of 3 right, 2 not answered.\n")


def test_an_exam_ends_with_every_question_its_verdict_and_why(progress):
    seat = quizzing(progress, BYTES, PHASES, rules=EXAM)
    assert screen(seat).startswith("Question 1/2 · exam · medium · The ring\n")
    told = "An exam: the verdicts come at its end, and until then you can go back and change every answer."
    assert told in " ".join(screen(seat).split())
    assert screen(seat).endswith("1-4 answer · s next · f flag · ? help · q end")
    assert "An exam has no hints, solutions or demos; s goes to the next question.\n" in screen(press(seat, "h"))
    assert screen(press(seat, "x", "d")).startswith("Question 1/2")
    seat = press(seat, "1")
    assert "Wrong" not in screen(seat)
    assert screen(seat).startswith("Question 2/2 · exam")
    shown = screen(press(seat, "s", "q"))
    assert shown.startswith("Done: 0 of 2 right, 1 not answered.\n")
    assert "Question 1 · medium · ring/bytes\n✗ Wrong. Each sum travels to be made and again to be shared.\n" in shown
    assert "✗>1  1,200 bytes\n✓ 2  1,800 bytes\n" in shown
    assert "Question 2 · easy · ring/phases\nNot answered.\n" in shown
    assert "✓" not in shown.partition("ring/phases\n")[2]  # it may be asked again, so its solution stays hidden
    assert [(row.item, row.credit) for row in progress.entries("answer")] == [("ring/bytes", 0.0), ("ring/phases", 0.0)]
    assert "once more" in screen(press(seat, "w"))
    assert "✓ Right." in screen(press(seat, "2"))  # a retry is not an exam


def test_after_an_exam_a_number_opens_one_verdict_from_which_p_runs_its_proof(progress):
    seat = press(quizzing(progress, BYTES, PHASES, rules=EXAM), "1", "s", "q")
    assert screen(seat).endswith("enter leave · 1-2 question · q leave · w wrong ones again · d demo · ? help")
    assert "Open a question by its number; there, p runs its proof.\n" in screen(press(seat, "p"))
    shown = screen(press(seat, "1"))
    assert shown.startswith(
        "Question 1 · medium · ring/bytes\n✗ Wrong. Each sum travels to be made and again to be shared.\n"
    )
    assert shown.endswith("enter next verdict · p calculation · esc back · ? help")
    press(seat, "p")
    assert seat.context.ranks.started == ["ring/bytes"]
    assert screen(press(seat, "space")).startswith("Question 2 · easy · ring/phases\nNot answered.\n")
    assert "its proof would show the answer" in screen(press(seat, "p"))
    assert screen(press(seat, "enter")).startswith("Done: 0 of 2 right")
    assert screen(press(seat, "2", "escape")).startswith("Done: 0 of 2 right")
    assert not seat.left
    assert press(seat, "q").left


def test_after_a_long_exam_a_number_may_have_two_digits(progress):
    seat = press(quizzing(progress, *[BYTES] * 12, rules=EXAM), "q", "q")
    assert not seat.quiz.overview
    assert seat.left  # nothing was answered
    seat = press(quizzing(progress, *[BYTES] * 12, rules=EXAM), "1", "q", "q", "1")
    assert "Question 1: press enter, or one more digit.\n" in screen(seat)
    assert screen(press(seat, "2")).startswith("Question 12 · ")
    assert screen(press(seat, "escape", "1", "enter")).startswith("Question 1 · ")


def test_the_time_of_an_exam_runs_on_the_overview_too_and_what_was_typed_counts_at_its_end(progress):
    seat = quizzing(progress, STEPS, PHASES, rules=TIMED)
    seat.context.clock.tick = timedelta(0)
    assert "1:00 left" in screen(press(seat, "escape", "q"))
    press(seat, "u", "u", *"1800")
    seat.context.clock.at += timedelta(seconds=61)
    assert seat.tick()
    shown = screen(seat)
    assert shown.startswith("Done: 1 of 2 right, 1 not answered.\nTime was up on 1 question.\n")
    assert "ring/steps\nTime is up: what you had entered is your answer. ✓ Right.\n" in shown
    assert "ring/phases\nNot answered: time was up.\n" in shown
    seat = quizzing(progress, STEPS, rules=TIMED)
    press(seat, "escape", "q")
    seat.context.clock.at += timedelta(seconds=61)
    assert seat.tick()
    assert seat.over


def test_an_exam_in_a_pipe_shows_nothing_before_the_end(progress):
    seat = quizzing(progress, BYTES, PRINTS, rules=EXAM, final=True)
    text = spoken(seat, "h", "1", ":x", ":p", "[4.0, 6.0]")
    assert text.count("An exam has no hints, solutions or demos; s goes to the next question.\n") == 2
    assert "The proof comes with the verdict.\n" in text
    assert seat.context.ranks.started == []
    assert "Wrong" not in text
    assert seat.over
    assert [answer.right for answer in seat.quiz.answers] == [False, True]


def test_lines_of_a_person_can_go_back_from_the_overview(progress):
    seat = quizzing(progress, BYTES, PHASES, rules=EXAM)
    spoken(seat, "1", "", "", "1 2", "u", "u", "2")
    assert [answer.given for answer in seat.quiz.answers] == ["1 2", "2"]
    assert not seat.over


def test_a_number_of_two_digits_leads_from_the_overview_to_its_question(progress):
    asked = [BYTES, PHASES, STEPS] * 4
    seat = press(quizzing(progress, *asked, rules=EXAM), "q")
    assert "Question 1: press enter, or one more digit." in screen(press(seat, "1"))
    assert screen(press(seat, "2")).startswith("Question 12/12")
    assert screen(press(seat, "escape", "q", "1", "enter")).startswith("Question 1/12")
    assert screen(press(seat, "q", "1", "3", "9")).startswith("Question 9/12")
    assert screen(press(seat, "escape", "q", "1", "u", "escape", "q", "2")).startswith("Question 2/12")
    assert "Question 1: press enter" in screen(press(seat, "q", "1", "?", "?"))
    press(seat, "2")
    seat = quizzing(progress, BYTES, PHASES, rules=EXAM)
    spoken(seat, "1", "1 2", "1", "2")
    assert [answer.given for answer in seat.quiz.answers] == ["1 2", "2"]


def test_an_exam_may_ask_how_sure_too(progress):
    seat = press(quizzing(progress, BYTES, PHASES, rules=replace(EXAM, confidence=True)), "2")
    assert "How sure are you" in screen(seat)
    assert screen(press(seat, "4")).startswith("Question 2/2 · exam")


def test_an_adaptive_exam_says_that_it_may_end_early(progress):
    seat = quizzing(progress, BYTES, PHASES, rules=Rules(exam=True, adaptive=2))
    assert "It ends early once enough is known." in " ".join(screen(seat).split())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_an_exam_loses_no_answer(home, number):
    terminal = sample(home, "test", "ring", "--exam", "--seed", "1")
    terminal.wait("Question 1/3")
    terminal.press("s", "Question 2/3")
    terminal.press("1", "Question 3/3")
    os.kill(terminal.child.pid, number)
    assert terminal.end() == 128 + number
    assert LEAVE_SCREEN in terminal.raw
    assert len(log(home)) == 1


def kinds(home):
    with Progress(home) as progress:
        return [row.kind for row in progress.log()]


def exam_of(home, *options, **environment):
    return sample(home, "test", "ring", "--exam", "--seed", "1", *options, **environment)


@pytest.mark.parametrize("leave", ["kill", "hangup", "\x03"])
def test_an_exam_whose_window_closed_goes_on_where_it_was(home, leave):
    terminal = exam_of(home)
    asked = terminal.wait("Question 1/3")
    terminal.press("s", "Question 2/3")
    terminal.press("1", "Question 3/3")
    if leave == "\x03":
        terminal.press(leave)
    else:
        os.kill(terminal.child.pid, signal.SIGKILL if leave == "kill" else signal.SIGHUP)
    terminal.end()
    assert "Wrong" not in terminal.raw  # no verdict before the end
    assert kinds(home) == ["answer"]
    terminal = exam_of(home)
    assert "Going on with this exam: 1 of 3 have an answer." in terminal.wait("Question 3/3")
    terminal.press("\x1bu", "Your answer is 1")
    terminal.press("2", "Question 3/3")
    assert kinds(home) == ["answer", "undo", "answer"]
    terminal.press("\x1bu", "Question 2/3")
    first = terminal.press("u", "Question 1/3")
    assert first.splitlines()[2:6] == asked.splitlines()[2:6]  # the same question, in the same form
    terminal.press("q", "Questions without an answer: 2 of 3; they count as wrong")
    terminal.press("q", "Done: ")
    terminal.press("q")
    assert terminal.end() == 0
    with Progress(home) as progress:
        assert [row.credit for row in progress.entries("answer")][1:] == [0.0, 0.0]
    terminal = exam_of(home)
    assert "Going on" not in terminal.wait("Question 1/")
    terminal.press("\x03")
    terminal.end()


def test_the_clock_of_an_exam_stands_still_while_it_is_closed_and_a_changed_question_begins_a_new_one(
    tmp_path, progress
):
    state = play(exam(BYTES, PHASES, rules=TIMED), Given("1"))
    kept_row = Receipt("here", 1)
    rows = {"ring/bytes": SavedAnswer(kept_row, None)}
    save_exam(tmp_path, "ddpquiz test", UnfinishedExam(state, rows), START + timedelta(seconds=20))
    fresh = begin((BYTES, PHASES), random.Random(7), START + timedelta(days=1), rules=TIMED)

    def load(*questions, kept=(kept_row,), command="ddpquiz test"):
        return load_exam(tmp_path, command, fresh, questions, kept)

    after = load(BYTES, PHASES).quiz
    assert after.left(START + timedelta(days=1, seconds=10)) == timedelta(seconds=30)
    assert (after.place, [(answer.given, answer.posed) for answer in after.answers]) == (1, [("1", state.asked[0])])
    assert load(BYTES, PHASES, kept=()).quiz.open == (0, 1)  # a log from before the answer
    assert load(BYTES, replace(PHASES, ask="Which ones?")) is None
    assert load(BYTES) is None
    assert load(BYTES, PHASES, command="ddpquiz test other") is None
    for damage in ("{", "[]", '{"ddpquiz test": {"asked": 3}}'):
        (tmp_path / "exams.json").write_text(damage)
        assert load(BYTES, PHASES) is None
    save_exam(tmp_path, "ddpquiz test", UnfinishedExam(state, rows), START)
    forget_exam(tmp_path, "ddpquiz test")
    assert load(BYTES, PHASES) is None


def test_questions_that_an_exam_left_open_count_as_not_known_once_it_ends(progress):
    seat = press(quizzing(progress, BYTES, PHASES, STEPS, rules=EXAM), "2", "escape", "q")
    assert [row.item for row in progress.entries("answer")] == ["ring/bytes"]
    press(seat, "q")
    assert sorted((row.item, row.credit) for row in progress.entries("answer")) == [
        ("ring/bytes", 1.0),
        ("ring/phases", 0.0),
        ("ring/steps", 0.0),
    ]


def test_an_exam_in_which_nothing_was_answered_says_nothing(progress):
    press(quizzing(progress, BYTES, PHASES, rules=EXAM), "q", "q")
    assert progress.log() == []


def test_the_end_of_a_pipe_ends_an_exam_but_a_line_that_is_no_answer_does_not_count(progress):
    spoken(quizzing(progress, BYTES, PHASES, STEPS, rules=EXAM, final=True), "2", "what?")
    assert [(row.item, row.credit) for row in progress.entries("answer")] == [("ring/bytes", 1.0), ("ring/steps", 0.0)]
