"""A lesson in steps: each step on the screen, what it saves, and a whole lesson on real ranks in a real terminal."""

import json
import os
import signal
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
from inline_snapshot import snapshot
from run_program import LEAVE_SCREEN, ddpquiz, log
from sample import RING, START, answer_row
from sample_sittings import context, press, screen, type_text
from typer.testing import CliRunner

from ddpquiz.cli.app import app
from ddpquiz.curriculum import pack_consent, pack_store, packs
from ddpquiz.curriculum.catalog import LabTitle
from ddpquiz.curriculum.concept import DemoLink, LessonStep, Level, LineChange, Listing, Option, Shows
from ddpquiz.curriculum.listing import whole_script
from ddpquiz.curriculum.loading import load_pack
from ddpquiz.errors import UserError
from ddpquiz.learning import mastery
from ddpquiz.learning.guided_path import StageName, guided_path, load_history, missed_in_steps, next_path, save_seen
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Grade, study_day
from ddpquiz.ranks.content_check import run_listings
from ddpquiz.ranks.content_runner import Observed, begin_own_version
from ddpquiz.terminal.sittings import lesson_screen
from ddpquiz.terminal.sittings.lesson_screen import LessonScreen
from ddpquiz.terminal.sittings.more_screen import MoreScreen
from ddpquiz.terminal.sittings.path_screen import PathScreen
from ddpquiz.terminal.sittings.quiz_screen import once_more
from ddpquiz.terminal.sittings.rank_runner import DemoOutcome

DAY = study_day(START)
SUM = Listing(
    2,
    "x = torch.tensor(rank + 1.0)\ndist.all_reduce(x)\nprint(x.item())",
    Shows(by_rank={0: "3.0", 1: "3.0"}),
    LineChange("dist.all_reduce(x)", "pass", Shows(by_rank={0: "1.0", 1: "2.0"}), "Each keeps its own."),
)
SHOWN = DemoLink("allreduce", "bytes", ("--size", "300"), 4, "bytes", ("bytes",))
LESSON = (
    LessonStep("All ranks *add up*.", SUM, then="Both have the sum."),
    LessonStep("A ring has no root.", ask="bytes"),
    LessonStep("What does a rank send?", ask="steps", demo=SHOWN, then="Less than twice."),
    LessonStep("One to recall.", ask="three"),
)
LONG = replace(
    next(each for each in RING.questions if each.id == "bytes"), check="It lies between S and 2 S. " * 20
)  # its reasons do not fit below an answer
STEPS = replace(RING, steps=LESSON, demos=(SHOWN,), more="A second example.", able="say who holds the sum.")


def history(progress):
    return load_history(progress, DAY)


def path(progress, concept=STEPS):
    return guided_path(concept, (), history(progress))


def lesson(progress, step=0, concept=STEPS):
    session = context(progress, concepts=(concept,))
    return LessonScreen(session, concept, history(progress), step)


def stages(progress):
    return [(row.item, row.given) for row in progress.entries("stage")]


def test_a_path_has_the_steps_the_cards_and_the_lab_and_goes_on_at_the_step_that_is_open(progress):
    assert [(str(each.stage), each.count, each.left) for each in path(progress).stages] == [
        ("lesson", 4, 4),
        ("cards", 3, 3),
    ]
    assert not path(progress).begun
    progress.stage("ring/step-1", "done", START)
    progress.stage("ring/step-2", "skipped", START)
    assert (path(progress).step, path(progress).begun) == (2, True)
    assert path(progress).position == "1 of 2: lesson, step 3 of 4"
    assert next_path((STEPS,), (), history(progress)).concept is STEPS
    for step in (3, 4):
        progress.stage(f"ring/step-{step}", "done", START)
    assert path(progress).current.stage is StageName.CARDS
    progress.stage("ring/lesson", "done", START)
    other = replace(STEPS, id="other")
    assert next_path((STEPS, other), (), history(progress)).concept is other  # its cards are dealt by study
    assert next_path((STEPS,), (), history(progress)).concept is STEPS


def test_a_lesson_that_an_older_ddpquiz_saved_as_read_is_done(progress):
    progress.stage("ring/lesson", "done", START)
    assert path(progress).current.stage is StageName.CARDS


def test_a_listing_is_run_its_line_changed_and_both_results_stay_to_be_looked_at(progress):
    seat = lesson(progress)
    assert screen(seat) == snapshot("""\
Lesson, step 1 of 4 · The ring

All ranks add up.

  x = torch.tensor(rank + 1.0)
  dist.all_reduce(x)
  print(x.item())

enter run it · e editor · s skip · / look up · ? help · esc stages · q leave\
""")
    press(seat, "enter")
    assert "loading torch" in screen(seat)
    assert "Wait for the result: loading torch (only once); esc ends the run." in screen(press(seat, "s"))
    seat.stop()
    seat._show(seat.pages[1], Observed({0: "3.0", 1: "3.0"}))
    assert screen(seat) == snapshot("""\
Lesson, step 1 of 4 · The ring

  x = torch.tensor(rank + 1.0)
  dist.all_reduce(x)
  print(x.item())

  │ rank 0  3.0
  │ rank 1  3.0

Both have the sum.

enter change the line · r again · u back · e editor · s skip · ? help · q leave\
""")
    press(seat, "enter")
    seat.stop()
    seat._show(seat.pages[2], Observed({0: "1.0", 1: "2.0"}))
    assert screen(seat) == snapshot("""\
Lesson, step 1 of 4 · The ring

  x = torch.tensor(rank + 1.0)
- dist.all_reduce(x)
+ pass
  print(x.item())

  │ rank 0  1.0
  │ rank 1  2.0

Each keeps its own.

enter next step · r again · u back · e editor · s skip · ? help · q leave\
""")
    press(seat, "u")
    assert "Both have the sum." in screen(seat)
    press(seat, "enter")
    assert "Each keeps its own." in screen(seat)
    assert stages(progress) == []
    press(seat, "enter")
    assert "step 2 of 4" in screen(seat)
    assert stages(progress) == [("ring/step-1", "done")]


def test_a_result_that_the_lesson_does_not_expect_is_told_as_such(progress):
    seat = lesson(progress)
    seat._show(seat.pages[1], Observed({0: "3.0", 1: "2.0"}))
    assert "This is not what the lesson expects" in screen(seat)
    assert "Both have the sum." not in screen(seat)
    seat._show(seat.pages[1], Observed({0: "", 1: "x"}, hung=True))
    assert "rank 0  prints nothing" in screen(seat)
    assert "The ranks wait: no call ends, and no error is raised." in screen(seat)


def test_a_question_gets_its_verdict_at_once_and_counts_for_nothing(progress):
    seat = lesson(progress, 1)
    press(seat, "enter")
    shown = screen(seat)
    assert "How many bytes does each" in shown
    wrong = next(line.split()[0] for line in shown.splitlines() if "3,600 bytes" in line)
    press(seat, wrong)
    assert "✗ Wrong." in screen(seat)
    assert "A root would send that much." in screen(seat)
    (row,) = progress.entries("answer")
    assert (row.item, row.given, row.credit, row.retry, row.made_due_card) == (
        "ring/bytes",
        "3,600 bytes",
        0,
        True,
        None,
    )
    assert progress.last_answers() == []
    assert progress.memories() == {}
    press(seat, "u")
    assert "A ring has no root." in screen(seat)
    press(seat, "enter")
    assert "✗ Wrong." in screen(seat)
    press(seat, "p")
    assert seat.context.ranks.started == ["ring/bytes"]


def test_right_answers_in_lessons_never_make_a_concept_strong(progress):
    for _ in range(30):
        seat = lesson(progress, 1)
        press(seat, "enter")
        right = next(line.split()[0] for line in screen(seat).splitlines() if "1,800 bytes" in line)
        press(seat, right)
    assert len(progress.entries("answer")) == 30
    assert mastery.strengths(progress.last_answers(), DAY) == {}


def test_the_text_is_shown_again_without_losing_what_was_typed(progress):
    seat = lesson(progress, 2)
    press(seat, "enter")
    type_text(seat, "6")
    assert "> 6_ " in screen(seat)
    press(seat, "escape", "u")
    assert "What does a rank send?" in screen(seat)
    press(seat, "enter")
    assert "> 6_ " in screen(seat)


@pytest.mark.parametrize(("rows", "is_shown"), [(24, True), (14, False)])
def test_a_question_stands_below_the_listing_that_it_is_about_where_both_fit(progress, monkeypatch, rows, is_shown):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", str(rows))
    concept = replace(STEPS, steps=(LessonStep("Who has the sum?", SUM, ask="bytes"), *LESSON[1:]))
    shown = screen(press(lesson(progress, concept=concept), "enter"))
    question, listing = shown.index("How many bytes"), shown.find("dist.all_reduce(x)")
    assert (0 < listing < question) == is_shown == (listing > 0)


def test_whether_a_question_fits_below_its_listing_is_measured_once_for_each_size(progress, monkeypatch):
    measured = []
    monkeypatch.setattr(lesson_screen, "_fits", lambda page: measured.append(page) or True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    concept = replace(STEPS, steps=(LessonStep("Who has the sum?", SUM, ask="bytes"), *LESSON[1:]))
    seat = press(lesson(progress, concept=concept), "enter")
    for _ in range(3):
        screen(seat)
    assert len(measured) == 1
    monkeypatch.setenv("LINES", "30")
    screen(seat)
    assert len(measured) == 2


def test_a_prediction_is_judged_by_the_demo_that_follows_it(progress):
    seat = lesson(progress, 2)
    places = []
    seat.context.ranks.demo = lambda _, how: (
        places.append(how.run_at)
        or DemoOutcome("", was_predicted=False, ended_well=True, values={"bytes": {0: "450", 1: "450"}})
    )
    press(seat, "enter")
    type_text(seat, "5\n")
    assert places == ["Lesson, step 3 of 4"]
    assert screen(seat) == snapshot("""\
Lesson, step 3 of 4 · The ring

A ring of 4 ranks moves 1,200 bytes. How many does each rank send?

  │ rank     0    1
  │ bytes  450  450

✗ yours  5 bytes
✓ right  1,800 bytes

Less than twice.

enter next step · d demo · u question · s skip · / look up · ? help · q leave\
""")
    assert ("ring/demo", "done") in stages(progress)
    press(seat, "enter")
    assert "step 4 of 4" in screen(seat)


def test_who_asks_for_the_solution_has_predicted_nothing(progress):
    seat, visits = lesson(progress, 2), []

    def demo(link, visit):
        visits.append(visit.predicted)
        return DemoOutcome("", was_predicted=False, ended_well=True, values={"bytes": {0: "450", 1: "450"}})

    seat.context.ranks.demo = demo
    press(seat, "enter", "escape", "x", "enter")
    assert visits == [None]
    assert "yours" not in screen(seat)


def test_what_was_asked_and_answered_stands_beside_the_result_and_one_key_shows_all_options_again(progress):
    step = LessonStep("Text.", SUM, ask="bytes", then="Both have the sum.")
    seat = press(lesson(progress, concept=replace(STEPS, steps=(step,))), "enter")
    wrong = next(row.split()[0] for row in screen(seat).splitlines() if row.endswith("3,600 bytes"))
    press(seat, wrong)
    seat.stop()
    seat._show(seat.pages[2], Observed({0: "3.0", 1: "3.0"}))
    assert screen(seat) == snapshot("""\
Lesson, step 1 of 1 · The ring

Four ranks all-reduce 1,200 bytes with a ring. How many bytes does each rank
send?

  x = torch.tensor(rank + 1.0)
  dist.all_reduce(x)
  print(x.item())

  │ rank 0  3.0
  │ rank 1  3.0

✗ yours  3,600 bytes
✓ right  1,800 bytes
A root would send that much.

Both have the sum.

enter change the line · r again · p proof · u question · ? help · q leave\
""")
    assert "A root would send that much." in screen(press(seat, "u"))
    assert "enter the result" in screen(seat)
    assert "✗ yours  3,600 bytes" in screen(press(seat, "enter"))


def test_what_an_answer_means_comes_right_after_the_verdict(progress):
    step = LessonStep("Text.", ask="bytes", then="Less than twice.")
    seat = press(lesson(progress, concept=replace(STEPS, steps=(step,))), "enter")
    right = next(row.split()[0] for row in screen(seat).splitlines() if row.endswith("1,800 bytes"))
    assert "\n✓ Right, with a hint.\n\nLess than twice.\n\nFour ranks" in screen(press(seat, "h", right))


def test_after_a_right_answer_a_key_shows_the_reasons_that_do_not_fit_and_another_goes_on(progress):
    asked = LONG
    step = LessonStep("Text.", ask="bytes", then="Less than twice.")

    def answered(question):
        concept = replace(STEPS, questions=(question,), steps=(step, *LESSON))
        seat = press(lesson(progress, concept=concept), "enter")
        return press(seat, next(row.split()[0] for row in screen(seat).splitlines() if row.endswith("1,800 bytes")))

    seat = answered(replace(asked, steps=(), check=""))
    assert "enter next step · p proof" in screen(seat)
    assert "A root would send that much." in screen(seat)
    seat = answered(asked)
    assert screen(seat) == snapshot("""\
Lesson, step 1 of 5 · The ring

✓ Right.

Less than twice.

Four ranks all-reduce 1,200 bytes with a ring. How many bytes does each rank
send?

✓>2  1,800 bytes

enter next step · space all reasons · p proof · u back · ? help · q leave\
""")
    press(seat, "space")
    assert "A root would send that much." in screen(seat)
    assert "enter next step · p proof" in screen(seat)
    assert seat.turning == ("enter", "space")


def test_a_right_answer_is_shown_with_its_steps_where_the_lesson_says_nothing_after_it(progress):
    asked = LONG
    seat = press(
        lesson(progress, concept=replace(STEPS, questions=(asked,), steps=(LessonStep("T.", ask="bytes"),))), "enter"
    )
    press(seat, next(row.split()[0] for row in screen(seat).splitlines() if row.endswith("1,800 bytes")))
    assert "✓>2  1,800 bytes\n\nSteps\n  1. A chunk is 300 bytes." in screen(seat)
    assert "space all reasons" in screen(seat)


def test_a_wrong_answer_is_shown_beside_the_right_one_and_a_key_shows_what_does_not_fit(progress):
    asked = LONG
    step = LessonStep("Text.", ask="bytes", then="Less than twice.")
    seat = press(lesson(progress, concept=replace(STEPS, questions=(asked,), steps=(step, *LESSON))), "enter")
    press(seat, next(row.split()[0] for row in screen(seat).splitlines() if row.endswith("3,600 bytes")))
    assert screen(seat) == snapshot("""\
Lesson, step 1 of 5 · The ring

✗ Wrong. A root would send that much.

Less than twice.

Four ranks all-reduce 1,200 bytes with a ring. How many bytes does each rank
send?

✗>4  3,600 bytes
✓ 2  1,800 bytes

Steps
  1. A chunk is 300 bytes.
  2. 6 x 300 = 1,800 bytes.

enter next step · space all reasons · p proof · u back · ? help · q leave\
""")
    assert "enter next step · p proof" in screen(press(seat, "space"))
    assert "Cross-check" in screen(seat)


def test_of_a_question_that_does_not_fit_beside_its_answer_the_end_is_shown(progress):
    asked = LONG
    long = replace(asked, ask=f"{'Nobody fails. ' * 100}{asked.ask}")
    seat = press(
        lesson(progress, concept=replace(STEPS, questions=(long,), steps=(LessonStep("T.", ask="bytes"),))), "enter"
    )
    press(seat, next(row.split()[0] for row in screen(seat).splitlines() if row.endswith("1,800 bytes")))
    shown = screen(seat)
    assert "✓ Right.\n\n… " in shown
    assert "How many bytes does each rank send?\n\n✓>2  1,800 bytes" in shown.replace("\nsend?", " send?")
    assert len(shown.splitlines()) <= 24


def test_a_wrong_answer_that_no_belief_explains_keeps_the_steps_in_view(progress):
    asked = next(each for each in STEPS.questions if each.id == "steps")
    asked = replace(asked, check="Half of that goes out in each phase. " * 30)
    seat = press(
        lesson(progress, concept=replace(STEPS, questions=(asked,), steps=(LessonStep("T.", ask="steps"),))), "enter"
    )
    type_text(seat, "77")
    press(seat, "enter")
    assert "Steps\n  1. 2 x 3/4 x 1,200 = 1,800" in screen(seat)
    assert "space all reasons" in screen(seat)
    assert "Cross-check" not in screen(seat)
    assert "Cross-check" in screen(press(seat, "space"))


def test_the_order_of_options_stays_until_the_question_is_answered_and_the_mistake_is_the_first_hint(progress):
    asked = LONG
    words = [Option(f"{word} bytes", why=f"{word} is wrong.") for word in ("No", "Some", "More", "Most")]
    asked = replace(asked, options=(Option("All bytes", right=True), *words))
    concept = replace(STEPS, questions=(asked,), steps=(LessonStep("Text.", ask="bytes"),))

    def opened():
        return press(lesson(progress, concept=concept), "enter")

    first = screen(opened())
    assert [screen(opened()) for _ in range(5)] == [first] * 5
    seat, orders = opened(), set()
    for _ in range(5):
        wrong = next(row.split()[0] for row in screen(seat).splitlines() if row.endswith("No bytes"))
        press(seat, wrong)
        orders.add(screen(seat := opened()))
    assert len(orders) > 1
    assert 'Hint 1  Last time you answered "No bytes". No is wrong.' in screen(press(seat, "h"))


def test_the_time_for_a_step_is_saved_with_it_and_that_for_its_question_only_once(progress):
    seat = lesson(progress, 1)
    seat.context.clock.at += timedelta(seconds=60)
    assert "Four ranks" in screen(press(seat, "enter"))
    seat.context.clock.at += timedelta(seconds=30)
    press(seat, "1")
    seat.context.clock.at += timedelta(seconds=10)
    press(seat, "enter")
    (answer,), (step,) = progress.entries("answer"), progress.entries("stage")
    assert (30_000 <= answer.took < 60_000, 70_000 <= step.took < 100_000) == (True, True)


def test_an_answer_of_several_lines_is_shown_as_it_is(progress):
    asked = LONG
    lines = replace(
        asked, options=(Option("a = 1\nb = 2", right=True, code=True), Option("b = 2\na = 1", code=True, why="No."))
    )
    concept = replace(STEPS, questions=(lines,), steps=(LessonStep("Text.", ask="bytes", demo=SHOWN),))
    seat = lesson(progress, concept=concept)
    seat.context.ranks.demo = lambda *_: DemoOutcome("", was_predicted=False, ended_well=True, values={})
    press(seat, "enter")
    wrong = next(
        row.split()[0] for row in screen(seat).splitlines() if row.endswith(" b = 2") and row.split()[0].isdigit()
    )
    press(seat, wrong)
    assert "✗ yours  b = 2\n         a = 1\n✓ right  a = 1\n         b = 2\nNo." in screen(seat)


def test_the_cards_of_a_lesson_in_steps_are_those_that_it_teaches(progress):
    concept = lesson(progress, 0).concept
    hard = replace(concept.cards[0], level=Level.HARD)
    known = replace(concept, cards=(*concept.cards[1:], hard))
    assert hard not in known.taught_cards
    assert len(known.taught_cards) == sum(card.level != Level.HARD for card in known.cards)
    whole = replace(known, steps=(replace(known.steps[0], listing=None, ask="", demo=None),))
    assert whole.taught_cards == whole.cards  # a lesson in one text


def test_n_goes_on_with_another_concept_although_cards_are_open(progress):
    seat = PathScreen(context(progress), RING)
    press(seat, "escape", "n")
    assert seat.path.concept is not RING


def test_looking_back_from_the_next_step_shows_the_verdict_of_this_one(progress):
    seat = press(lesson(progress, 1), "enter", "1")
    verdict = screen(seat)
    press(seat, "enter", "u")
    assert screen(seat) == verdict


def test_a_demo_that_did_not_end_well_can_be_run_again(progress):
    seat = lesson(progress, 2)
    seat.context.ranks.demo = lambda *_: DemoOutcome("", was_predicted=False, ended_well=False)
    press(seat, "enter")
    type_text(seat, "5\n")
    assert "The demo did not run to its end; d runs it again." in screen(seat)
    assert stages(progress) == []


def test_a_demo_that_was_predicted_and_seen_elsewhere_is_not_asked_again(progress):
    predicted = replace(STEPS, demos=(replace(SHOWN, predict="bytes"),))
    concept = replace(predicted, steps=(LessonStep("Text.", ask="bytes", demo=SHOWN, then="Less."),))
    seat = lesson(progress, concept=concept)
    press(seat, "enter")
    assert "How many bytes" in screen(seat)
    progress.answer(answer_row("ring/bytes", 1.0), START)
    save_seen(progress, concept, SHOWN, START)
    seat = lesson(progress, concept=concept)
    press(seat, "enter")
    assert "You have predicted and seen this demo already" in screen(seat)
    assert "Less." in screen(seat)


def test_a_card_is_recalled_and_counts_among_the_new_cards_of_the_day(progress):
    seat = lesson(progress, 3)
    press(seat, "enter")
    assert screen(seat).splitlines()[2] == "Front of three?"
    press(seat, "space")
    assert "Back of three." in screen(seat)
    assert "1 forgot: now   2 hard but right: later   3 good" in screen(seat)
    assert screen(seat).count("1 forgot") == 1
    assert "\n1      forgot\n" in screen(press(seat, "?"))
    press(seat, "?", "1")
    memory = progress.memories()["ring/three"]
    assert (memory.first, memory.lapses) == (DAY, 0)
    assert (seat.finished, stages(progress)) == (True, [("ring/step-4", "done")])


def test_a_card_that_was_studied_before_is_not_graded_again(progress):
    progress.review("ring/three", Grade.GOOD, START, START - START)
    seat = lesson(progress, 3)
    press(seat, "enter", "space", "1", "enter")
    assert (seat.finished, len(progress.entries("review"))) == (True, 1)


def test_after_skipping_most_steps_the_end_says_what_comes_back_and_not_what_one_can_do(progress):
    session = context(progress, concepts=(STEPS,))
    seat = PathScreen(session, STEPS)
    press(seat.lesson, "s", "s", "s", "enter", "space", "3")
    assert seat.lesson.finished
    seat.leave_lesson(seat.lesson)
    assert stages(progress)[-2:] == [("ring/step-4", "done"), ("ring/lesson", "done")]
    assert screen(seat) == snapshot("""\
The ring
│ An idea.

1 lesson  ✓ done  4 steps to read, answer and run; m reads more
2 cards   ▸ next  3 cards

This lesson has 3 new cards. Press 2 to recall them now, or leave them to
`ddpquiz study`, which shows 10 new cards a day; you have begun 1 today.

enter cards · s skip · 1-2 stage · n next lesson · t test · ? help · q quit\
""")
    for number in range(10):
        progress.review(f"other/{number}", Grade.GOOD, START, START - START)
    said = "3 new cards. Press 2 to recall them now, or leave them to `ddpquiz study`, which shows 10 new cards a day; you have begun 11 today."
    assert said in " ".join(screen(seat).split())
    enter = "\nenter next lesson · 1-2 stage · t test · m more · / look up · ? help · q quit"
    assert screen(seat).endswith(enter), "enter does what it says"
    for card in ("one", "two"):
        progress.review(f"ring/{card}", Grade.GOOD, START, START - START)
    progress.review("ring/four", Grade.HARD, START, START - START)
    assert "1 card comes back on Tuesday, 2 on Wednesday, in `ddpquiz study`." in screen(seat)


def test_after_enough_new_cards_for_a_day_enter_opens_the_lab_and_not_the_next_lesson(progress):
    session = context(progress, concepts=(STEPS,), labs=[LabTitle("fast-ring", "ring", "A fast ring", 20)])
    progress.stage("ring/lesson", "done", START)
    for step in range(1, 5):
        progress.stage(f"ring/step-{step}", "done", START)
    seat = PathScreen(session, STEPS)
    assert screen(seat).endswith("\nenter cards · s skip · 1-3 stage · n next lesson · t test · ? help · q quit")
    for number in range(10):
        progress.review(f"other/{number}", Grade.GOOD, START, START - START)
    shown = screen(seat)
    assert "\n2 cards           3 cards\n3 lab     ▸ next  A fast ring, about 20 minutes" in shown
    assert shown.endswith("\nenter lab · s skip · 1-3 stage · n next lesson · t test · ? help · q quit")
    press(seat, "enter")
    assert session.opened == [("fast-ring", "3 of 3: lab")]
    assert "3 lab     skipped" in screen(press(seat, "s"))


def test_the_key_that_leaves_a_lesson_says_where_it_leads(progress):
    seat = lesson(progress)
    assert screen(seat).endswith("q leave")
    seat.leads_to = "home"
    assert screen(seat).endswith("q home")
    assert "go back to the home screen; the lesson goes on at this step" in screen(press(seat, "?"))


def test_where_a_listing_answers_the_last_sentence_of_the_text_the_key_says_so(progress):
    asks = replace(STEPS, steps=(LessonStep("What do both hold?", SUM), *LESSON[1:]))
    assert "\nenter run it and see · " in screen(lesson(progress, concept=asks))
    assert "\nenter run it · " in screen(lesson(progress))


def test_a_skipped_step_says_how_to_go_back_and_is_done_once_it_is_done(progress):
    seat = lesson(progress, 2)
    press(seat, "enter", "s")  # the word "six", typed where a number is asked
    assert "The rest of step 3 is skipped; u goes back to it.\n" in screen(seat)
    press(seat, "u")
    assert seat.number == 2
    press(seat, "enter", *"1800", "enter", "enter")
    assert seat.number == 3
    assert [row for row in stages(progress) if "step" in row[0]] == [
        ("ring/step-3", "skipped"),
        ("ring/step-3", "done"),
    ]


def test_more_can_be_read_from_any_step_and_is_offered_in_the_last_and_after_the_lesson(progress, monkeypatch):
    opened = []
    monkeypatch.setattr(MoreScreen, "show", lambda more, _: opened.append(screen(more)))
    seat = lesson(progress)
    assert "more" not in screen(seat).splitlines()[-1]
    assert "read the extra pages" in screen(press(seat, "?"))
    press(seat, "escape", "m")
    assert opened == ["The ring · more\n\nA second example.\nesc back · ? help"]
    assert "All ranks add up." in screen(seat)
    path_screen = PathScreen(context(progress, concepts=(STEPS,)), STEPS)
    press(path_screen.lesson, "escape")
    path_screen.leave_lesson(path_screen.lesson)
    assert "m does nothing here" in screen(press(path_screen, "m"))
    press(seat, "s", "s", "s", "s")
    after = PathScreen(context(progress, concepts=(STEPS,)), STEPS)
    assert "1 lesson  ✓ done  4 steps to read, answer and run; m reads more" in screen(after)
    press(after, "m")
    assert len(opened) == 2


def test_what_was_missed_in_the_steps_is_asked_once_more_at_the_end_until_it_is_right(progress):
    def missed():
        return [each.id for each in missed_in_steps(STEPS, progress)]

    seat = lesson(progress, 1)
    press(seat, "enter", "x")
    assert missed() == []  # its step is not over
    press(seat, "enter")
    assert missed() == ["bytes"]
    session = context(progress, seat.context.clock, concepts=(STEPS,))
    asked = once_more(session, missed_in_steps(STEPS, progress))
    assert "Question 1/1 · once more" in screen(asked)
    assert "You missed this question in the lesson. These answers do not count." in screen(asked)
    posed = asked.quiz.posed
    press(asked, str(1 + [posed.question.options[place].right for place in posed.shown].index(True)))
    assert not asked.closed  # the verdict is on the screen
    press(asked, "enter")
    assert asked.closed
    assert (missed(), progress.last_answers()) == ([], [])


def test_the_end_of_a_lesson_claims_no_more_than_the_last_answers_show(progress):
    def answered(question, credit, *, minutes):
        progress.answer(answer_row(f"ring/{question}", credit, retry=minutes > 2), START + timedelta(minutes=minutes))
        return " ".join(screen(PathScreen(context(progress, concepts=(STEPS,)), STEPS)).split())

    for item in ("step-1", "step-2", "step-3", "step-4", "lesson"):
        progress.stage(f"ring/{item}", "done", START)
    todo = "Press t for questions about the lesson, or 1 to go through it again."
    assert f"You did not get 1 question of this lesson right the last time. {todo}" in answered("bytes", 0.0, minutes=1)
    assert "You did not get 2 questions of this lesson right" in (shown := answered("steps", 0.0, minutes=2))
    assert "You can now" not in shown
    assert "You can now" not in answered("steps", 1.0, minutes=3)
    shown = answered("bytes", 1.0, minutes=4)
    assert "✓ You can now say who holds the sum." in shown
    assert "You did not get" not in shown


def test_listings_run_on_real_ranks_and_what_they_do_not_show_is_reported():
    wrong = replace(SUM, shows=Shows("2.0"), change=replace(SUM.change, shows=Shows(hangs=True)))
    concepts = [STEPS, replace(STEPS, steps=(LessonStep("Text.", wrong),))]
    assert [(ran.step, ran.complaints) for ran in run_listings(concepts)] == [
        (0, ()),
        (
            0,
            (
                "the listing does not show what `prints` says: every rank prints '3.0'",
                "the listing with its line changed does not show what `prints` says: rank 0 prints '1.0', rank 1 prints '2.0'",
            ),
        ),
    ]


@pytest.fixture
def pack_home(mine, tmp_path):
    """The data folder of a learner who has added and allowed a new pack, whose concept is in steps."""
    pack_store.add_pack(mine)
    pack_consent.allow("mine", load_pack(packs.find("mine")).origin)
    return tmp_path / "home"


def _learn(home, **more):
    return ddpquiz("learn", "mine/first-concept", home=home, **more)


def _editor(folder, command):
    """An editor that runs a command of the shell, in which $1 is the file."""
    editor = folder / "editor.sh"
    editor.write_text(f"#!/bin/sh\n{command}\n")
    editor.chmod(0o755)
    return str(editor)


def test_a_whole_lesson_on_real_ranks_left_in_every_way(pack_home, tmp_path):
    terminal = _learn(pack_home, EDITOR=_editor(tmp_path, "sed -i 's/rank + 1.0/rank + 5.0/' \"$1\""))
    terminal.wait("step 1 of 4", "enter run it")
    terminal.press("\r", "rank 0  3.0", "rank 1  3.0", "enter change the line")
    terminal.press("\r", "- dist.all_reduce", "rank 0  1.0", "rank 1  2.0", "not combined|combined unless")
    terminal.press("u", "rank 0  3.0")
    changed = (r"^ *- x = .*rank \+ 1\.0", r"^ *\+ x = .*rank \+ 5\.0")
    terminal.press("e", "torchrun --standalone --nproc-per-node 2", *changed, "rank 0  11.0")
    terminal.press("\r", "rank 0  3.0")
    terminal.press("\r", "rank 1  2.0", "enter next step")
    terminal.press("\r", "step 2 of 4")
    terminal.press("\r", "Which line leaves the mean", "1-4 answer")
    terminal.press("1", "✓ Right|✗ Wrong")
    terminal.press("q")
    assert terminal.end() == 0
    assert "of 2: lesson, step 2 of 4. Go on with ddpquiz learn" in " ".join(" ".join(terminal.lines).split())
    terminal = _learn(pack_home)
    terminal.wait("step 2 of 4")
    terminal.press("s", "step 3 of 4")
    terminal.child.kill(signal.SIGKILL)
    terminal.end()
    terminal = _learn(pack_home)
    terminal.wait("step 3 of 4")
    terminal.press("\x1b", "Next is stage 1 of 2: lesson, step 3 of 4")
    terminal.press("\r", "Nothing runs on a rank")
    terminal.press("\r", r"happens\?", "1-4 answer")
    terminal.press("1", "✓ Right|✗ Wrong")
    terminal.press("\r", "step 4 of 4")
    terminal.press("\x03")
    assert terminal.end() == 130
    terminal = _learn(pack_home)
    terminal.wait("step 4 of 4")
    terminal.press("\r", "1-4 answer")
    terminal.press("1", "bytes sent +1800 +1800 +1800 +1800", "✗ yours|✓ right", "less than twice the", "enter finish")
    terminal.press("d", "done in", "time    ━ compute")
    terminal.press("\r", "bytes sent +1800", "enter finish")
    terminal.press("\r", "Question 1/2 · once more", "You missed these 2 questions in the lesson.")
    terminal.press("x", "Question 1/2", "enter next")
    terminal.press("\r", "Question 2/2 · once more")
    left = terminal.press("q", "This lesson has 5 new cards", "▸ next")
    assert "You did not get 2 questions of this lesson right the last time." in " ".join(left.split())
    terminal.press("q")
    assert terminal.end() == 0
    name = "mine/first-concept"
    assert [item for kind, item, *_ in log(pack_home) if kind == "stage"] == [
        f"{name}/step-1", f"{name}/step-2", f"{name}/step-3", f"{name}/demo", f"{name}/step-4", f"{name}/lesson",
    ]  # fmt: skip
    with closing(Progress(pack_home)) as progress:
        assert progress.last_answers() == []
        assert len(progress.entries("answer")) == 4


def test_the_code_of_the_lesson_comes_back_and_the_learners_version_is_kept(pack_home, tmp_path):
    edits = "sed -i 's/dist.all_reduce/pass  # &/; s/rank + [0-9]/rank + 7/' \"$1\"; echo '# mine' >> \"$1\""
    terminal = _learn(pack_home, EDITOR=_editor(tmp_path, edits))
    terminal.wait("step 1 of 4", "enter run it")
    terminal.press("\r", "rank 0  3.0")
    for number in (1, 2):  # the second time, the editor gets the code of the lesson again
        terminal.press("e", r"- x = .*rank \+ 1\.0", "rank 0  7.0", "o original")
        terminal.press("o", "rank 0  3.0", rf"your version is kept as\s+mine-first-concept-1_{number}\.py")
        kept = (pack_home / "listings" / f"mine-first-concept-1_{number}.py").read_text()
        assert ("rank + 7.0" in kept, kept.count("# mine")) == (True, 1)
    terminal.press("q")
    assert terminal.end() == 0


def test_the_listing_of_a_pack_runs_only_once_the_learner_has_allowed_it(mine, tmp_path):
    pack_store.add_pack(mine)
    terminal = _learn(tmp_path / "home")
    terminal.wait("step 1 of 4")
    terminal.press("\r", "did not come with")
    terminal.press("q")
    assert terminal.end() == 0


def test_the_learners_own_version_that_python_cannot_read_stays_to_be_mended(pack_home, tmp_path):
    terminal = _learn(pack_home, EDITOR=_editor(tmp_path, "echo 'print(' >> \"$1\""))
    terminal.wait("step 1 of 4", "enter run it")
    terminal.press("e", r"\+ print\(", r"mine-first-concept-1\.py:\d+: '\(' was never closed", "r again", "o original")
    terminal.press("o", "step 1 of 4", "enter run it")
    terminal.press("q")
    assert terminal.end() == 0


def test_the_learners_own_version_that_does_not_end_says_who_waits_for_whom_once_it_is_stopped(pack_home, tmp_path):
    """Rank 1 counts as silent, and is asked where it is, only after a second."""
    pid, mine = tmp_path / "pid", tmp_path / "mine.py"
    busy = f"""import os, time
until = time.monotonic() + 2
dist.barrier()
while rank == 1:
    if time.monotonic() > until and not os.path.exists({str(pid)!r}):
        open({str(pid)!r}, "w").write(str(os.getpid()))
"""
    mine.write_text(whole_script(f"{busy}dist.all_reduce(torch.ones(1))"))
    terminal = _learn(pack_home, EDITOR=_editor(tmp_path, f'cp {mine} "$1"'))
    terminal.wait("step 1 of 4", "enter run it")
    terminal.press("e", "while rank == 1", "running on real ranks, for at most 30 s")
    for again in (True, False):
        while not pid.exists():
            terminal.read(0.05)
        waits = r"Rank 0\s+waits\s+in\s+all_reduce\s+at\s+mine-first-concept-1\.py:\d+\s+for\s+rank\s+1"
        terminal.press("\x03", r"You stopped the run\.", waits, "r again", "o original")
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text()), 0)
        pid.unlink()
        if again:
            terminal.press("r", "while rank == 1", "running on real ranks, for at most 30 s")
    terminal.press("q")
    assert terminal.end() == 0


def test_a_run_that_lasts_can_be_stopped_and_leaves_no_rank(pack_home, tmp_path):
    writes = 'import os, time\\nopen("%s", "a").write(f"{os.getpid()}\\\\n")\\ntime.sleep(100)\\n' % (tmp_path / "pids")
    terminal = _learn(pack_home, EDITOR=_editor(tmp_path, f"printf '{writes}' > \"$1\""))
    terminal.wait("step 1 of 4")
    terminal.press("e", "running on real ranks")
    while not (tmp_path / "pids").exists() or (tmp_path / "pids").read_text().count("\n") < 2:
        terminal.read(0.05)
    terminal.press("\x03", "You stopped the run", "o original")
    for pid in (tmp_path / "pids").read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)
    terminal.press("q")
    assert terminal.end() == 0


def test_the_json_of_a_concept_holds_its_steps(mine):
    pack_store.add_pack(mine)
    told = json.loads(CliRunner().invoke(app, ["show", "mine/first-concept", "--json"]).output)
    assert [step["ask"] for step in told["steps"]] == ["", "mean-of-ranks", "what-is-waited-for", "ring-bytes"]
    assert told["steps"][0]["listing"]["change"]["to"] == "# dist.all_reduce(x)"
    page = CliRunner().invoke(app, ["learn", "mine/first-concept"]).output
    assert page.index("Step 1 of 4") < page.index("Which line leaves the mean") < page.index("Step 3 of 4")
    assert page.index("Answers") > page.index("Step 4 of 4")
    assert "Step by step" in page


def test_a_fault_in_the_learners_own_version_is_named_with_its_file(progress):
    with begin_own_version("ring", SUM, "import torch\nraise ValueError('mine')", "ring-1.py") as run:
        observed = run.finish()
    assert "at ring-1.py:2: mine" in observed.failed
    seat = lesson(progress)
    seat._show(None, observed)
    assert "raised ValueError at ring-1.py:2: mine" in screen(seat)
    with pytest.raises(UserError, match=r"^ring-1\.py:2: '\(' was never closed"):
        begin_own_version("ring", SUM, "import torch\nprint(", "ring-1.py")


def test_while_the_learners_own_version_runs_its_lines_are_shown_and_no_older_result(progress):
    seat = lesson(progress)
    seat._show(seat.pages[1], Observed({0: "3.0", 1: "3.0"}))
    seat._start(None, whole_script(SUM.code.replace("dist", "while rank == 1: pass\ndist", 1)))
    shown = screen(seat)
    assert "+ while rank == 1: pass" in shown
    assert "loading torch (only once) · ctrl+c stops it" in shown
    assert "rank 0  3.0" not in shown
    assert "Both have the sum." not in shown
    seat._started = replace(seat._started, run=SimpleNamespace(limit=30.0))
    assert "running on real ranks, for at most 30 s · ctrl+c stops it" in screen(seat)
    seat._started = replace(seat._started, page=seat.pages[1])
    assert "running on real ranks · ctrl+c stops it" in screen(seat)


def test_the_learners_own_version_that_ended_badly_says_where_its_ranks_were(progress):
    seat = lesson(progress)
    waits = "Rank 0 waits in all_reduce at ring-1.py:9 for rank 1."
    observed = Observed({0: "before", 1: ""}, hung=True, failed=waits, advice="Find out\nwhat rank 1 does.")
    seat._show(None, observed, whole_script(SUM.code))
    assert screen(seat).partition(f"{seat._file.name}\n")[2] == snapshot("""\

  │ rank 0  before
  │ rank 1  prints nothing

Rank 0 waits in all_reduce at ring-1.py:9 for rank 1.
Find out
what rank 1 does.

enter go on · r again · u back · e editor · o original · ? help · q leave\
""")


def test_the_learners_own_version_stays_when_it_is_stopped_before_it_runs_and_goes_with_esc(progress):
    seat = lesson(progress)
    seat._start(None, "print(1)")
    seat.interrupt()
    assert "It has not run yet: press r." in (shown := screen(seat))
    assert "r again" in shown
    assert "o original" in shown
    seat._start(None, "print(1)")
    press(seat, "escape")
    assert "All ranks add up." in screen(seat)
    assert "o original" not in screen(seat)


@pytest.mark.parametrize("way", ["escape", "q"])
def test_what_was_answered_in_a_step_is_not_asked_again_after_leaving_in_its_middle(progress, way):
    progress.stage("ring/step-1", "done", START)
    session = context(progress, concepts=(STEPS,))
    seat = PathScreen(session, STEPS)
    press(seat.lesson, "enter")
    wrong = next(line.split()[0] for line in screen(seat.lesson).splitlines() if "3,600 bytes" in line)
    press(seat.lesson, wrong, way)
    seat.leave_lesson(seat.lesson)
    assert seat.left == (way == "q")
    if seat.left:
        seat = PathScreen(replace(session, place=""), STEPS)  # from the home screen
    else:
        press(seat, "enter")
    assert "✗ Wrong." in screen(seat.lesson)
    assert not seat.lesson.left
    press(seat.lesson, "enter", "enter")
    assert "step 3 of 4" in screen(seat.lesson)
    assert len(progress.entries("answer")) == 1
    progress.stage("ring/step-3", "skipped", START)  # elsewhere
    seat.leave_lesson(seat.lesson)
    assert "step 4 of 4" in screen(PathScreen(session, STEPS).lesson)


def test_ctrl_c_in_a_lesson_says_at_which_step_it_goes_on(home):
    terminal = ddpquiz("learn", "why-distribute", home=home)
    terminal.wait("step 1 of 8")
    terminal.press("s", "step 2 of 8")
    terminal.press("\x03")
    assert terminal.end() == 130
    assert "lesson, step 2 of 8." in " ".join(terminal.raw.split(LEAVE_SCREEN)[-1].split())
