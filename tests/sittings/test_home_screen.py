"""Home: what it says, and where its keys lead."""

import io
import re
from dataclasses import replace
from datetime import timedelta

import pytest
from inline_snapshot import snapshot
from run_program import LEAVE_SCREEN, piped, sample
from sample import DDP, RING, START, answer_row
from sample_sittings import context, press, quizzing, screen, studying

from ddpquiz.curriculum.catalog import LabTitle
from ddpquiz.learning import mastery, standing
from ddpquiz.learning.log_rows import LabRow
from ddpquiz.learning.schedule import Grade
from ddpquiz.terminal.kit import layout, style
from ddpquiz.terminal.sittings import home_screen
from ddpquiz.terminal.sittings.home_screen import Home, page
from ddpquiz.terminal.sittings.rank_runner import DemoOptions


class NotingHome(Home):
    """Notes where the keys lead; on the way there, it does something."""

    def __init__(self, context):
        self.seen = []
        self.meanwhile = lambda: None
        super().__init__(context)

    def look(self):
        return look(self.context.progress)

    def ask_cards(self, choice):
        self.seen.append(("study", choice.cram, choice.new))
        self.meanwhile()

    def learn(self, concept):
        self.seen.append(("learn", concept.id))

    def choose_lesson(self):
        self.seen.append(("lessons",))

    def ask_questions(self, concept):
        self.seen.append(("test", concept and concept.id))


def look(progress):
    return replace(home_screen.look(context(progress)), streak=3)


def at_home(progress):
    return NotingHome(context(progress))


def answer(progress, question, credit, count=1):
    for number in range(count):
        progress.answer(answer_row(f"{question}{number}", credit, level="medium"), START)


def test_the_first_screen_is_two_sentences_and_the_first_lesson(progress):
    seat = at_home(progress)
    assert screen(seat) == (
        snapshot(
            """\
ddpquiz

ddpquiz teaches distributed training: lessons that run on real ranks of this
machine, questions, and cards that come back just before you would forget them.
Every answer is saved at once.

Next        enter  learn "The ring"
            lesson

enter begin · s study · a lessons · t test · d demo · ? help · q quit\
"""
        )
    )
    press(seat, "enter", "s", "l", "a")
    assert seat.seen == [("learn", "ring"), ("study", False, 10), ("learn", "ring"), ("lessons",)]


def test_who_has_done_a_lesson_is_not_welcomed_again(progress):
    assert at_home(progress).first_lesson is RING
    progress.stage("ring/step-1", "skipped", START)
    seat = at_home(progress)
    assert seat.first_lesson is None
    assert "i stats" in screen(seat)


def test_l_opens_the_lesson_that_is_named_beside_it(progress):
    progress.review("ring/one", Grade.GOOD, START - timedelta(days=40), timedelta())
    seat = at_home(progress)
    assert 'l learn "The ring"' in screen(seat)
    press(seat, "l")
    assert seat.seen == [("learn", "ring")]


def test_it_tells_where_the_learner_stands_and_what_is_best_done_next(progress):
    for name in ("one", "two"):
        progress.review(f"ring/{name}", Grade.AGAIN, START, START - START)
    answer(progress, "ring/q", 0.0, 8)
    assert screen(at_home(progress)) == (
        snapshot(
            """\
ddpquiz

Next        enter  learn "The ring"
            lesson
Also        s study · t test "DDP"

Due         2 cards to repeat.
New         2 cards to learn today, from the lessons that you have begun
Coming up   in the next seven days: none
Streak      3 days in a row
Weakest     The ring (ring): weak, 2–22%, based on 8 answers

Tracks, the weakest first
  collectives  2 concepts: 1 weak, 1 without a verdict

enter go on · s study · a lessons · t test · d demo · i stats · ? help · q quit\
"""
        )
    )


def test_enter_does_the_one_thing_that_is_best_done_next(progress):
    progress.review("ring/one", Grade.AGAIN, START, START - START)
    seat = at_home(progress)
    press(seat, "enter", "s")
    assert seat.seen == [("learn", "ring"), ("study", False, 10)]
    progress.review("ring/one", Grade.GOOD, START, START - START)
    seat = at_home(progress)
    press(seat, "enter")
    assert seat.seen == [("learn", "ring")]


def test_the_core_route_is_one_line_of_progress(progress):
    progress.stage("ddp/lesson", "done", START)
    known = context(progress)
    known.catalog = replace(known.catalog, core=("ddp", "ring"))
    console = style.console(io.StringIO(), width=80)
    layout.show(console, page(home_screen.look(known)))
    assert "Core route  ━━━━━━━━━━──────────  1 of 2 lessons\n" in console.file.getvalue()


def test_each_key_leads_where_it_says_and_back(progress):
    answer(progress, "ddp/q", 0.5)
    seat = at_home(progress)
    press(seat, "s", "t")
    assert seat.seen == [("study", False, 10), ("test", "ring")]
    assert screen(press(seat, "i")).endswith("\nesc back · ? help")
    for key in ("q", "backspace", "i"):
        assert "Next" in screen(press(seat, key))
        press(seat, "i")
    assert not press(seat, "escape").left
    press(seat, "d")
    assert seat.context.ranks.started == ["allreduce"]
    assert not seat.context.ranks.how.step
    press(seat, "q")
    assert seat.left


def test_the_first_demo_is_all_reduce_opened_at_its_first_step(progress):
    seat = at_home(progress)
    press(seat, "d")
    assert seat.context.ranks.started == ["allreduce"]
    assert seat.context.ranks.how == DemoOptions(step=True)


def test_on_screen_home_names_keys_and_no_shell_commands(progress):
    assert "ddpquiz " not in screen(at_home(progress))[10:].replace("ddpquiz teaches", "")
    answer(progress, "ring/q", 0.0, 8)
    for keys in ([], ["?"]):
        assert "ddpquiz " not in screen(press(at_home(progress), *keys))


def test_what_was_done_elsewhere_is_seen_when_one_comes_back(progress):
    seat = at_home(progress)
    seat.meanwhile = lambda: progress.review("ring/one", Grade.AGAIN, START, START - START)
    before = seat.scene
    assert "1 card to repeat.\nNew         3 cards to learn today" in screen(press(seat, "s"))
    assert seat.scene != before


def test_with_nothing_due_and_nothing_new_for_today_one_can_study_ahead(progress):
    for card in (*RING.cards, *DDP.cards):
        progress.review(card.key, Grade.EASY, START, START - START)
    seat = at_home(progress)
    assert "s study ahead" in screen(seat)
    assert "New         none left in the lessons that you have begun\n" in screen(seat)
    press(seat, "s", "n")
    assert seat.seen == [("study", True, 10)]


def test_when_the_new_cards_of_the_day_are_done_one_can_take_more(progress):
    for number in range(9):
        progress.review(f"gone/{number}", Grade.EASY, START, START - START)
    progress.review("ring/one", Grade.EASY, START, START - START)
    seat = at_home(progress)
    assert "New         10 cards begun today, enough for one day; 3 more are left\n" in screen(seat)
    assert "n study more new cards" in screen(seat)
    assert "s study ahead · n new cards · a lessons · t test · ? help" in screen(seat)
    press(seat, "n")
    assert seat.seen == [("study", False, 13)]
    for card in (*RING.cards[1:], *DDP.cards[:-1]):
        progress.review(card.key, Grade.EASY, START, START - START)
    assert "n new cards · " in screen(at_home(progress))


def test_a_test_is_about_the_concept_that_next_names_one_that_was_studied_first_and_in_the_end_about_what_was_begun(
    progress,
):
    seat = at_home(progress)
    assert 'questions about "The ring", which you have not been tested on' in helped(seat)
    progress.review("ddp/one", Grade.EASY, START, START - START)
    seat = at_home(progress)
    assert 't test "DDP"' in screen(seat)
    for tested in ("ddp", "ring"):
        press(seat, "t")
        answer(progress, f"{tested}/q1", 1.0)
        assert standing.advise(seat.look())[-1].concept.id == tested, "it was left early"
        for number in (2, 3):
            answer(progress, f"{tested}/q{number}", 1.0)
        press(seat, "s")  # home looks anew
    press(seat, "t")
    assert [place for place in seat.seen if place[0] == "test"] == [("test", "ddp"), ("test", "ring"), ("test", None)]
    assert "questions about what you have begun" in helped(seat)


def helped(seat):
    """Return the page of keys as one line."""
    shown = " ".join(screen(press(seat, "?")).split())
    press(seat, "?")
    assert not seat.helping
    return shown


def left_with(seat):
    """Return what stays in the scrollback."""
    console = style.console(io.StringIO(), width=80)
    layout.show(console, seat.summary())
    return console.file.getvalue()


def test_what_is_due_is_said_once_when_one_leaves(progress):
    seat = at_home(progress)
    assert left_with(seat) == snapshot("You have not begun yet: `ddpquiz learn` opens the first lesson.\n")
    progress.review("ring/one", Grade.AGAIN, START, START - START)
    seat = at_home(progress)
    assert left_with(seat) == snapshot("1 card to repeat. Due in the next seven days: none.\n")
    assert left_with(press(seat, "s")) == ""  # the sitting has said it
    assert left_with(press(seat, "t")).startswith("1 card to repeat.")


def test_what_comes_again_today_is_counted_beside_what_is_due_as_study_deals_it(progress):
    long_ago = START.replace(month=1)
    for name in ("one", "two"):
        progress.review(f"ring/{name}", Grade.GOOD, long_ago, START - START)
    progress.review("ring/three", Grade.HARD, START, START - START)
    assert "Due         2 cards due now, 1 to repeat.\n" in screen(at_home(progress))
    progress.review("ring/one", Grade.AGAIN, START, START - START)
    assert "Due         1 card due now, 2 to repeat.\n" in screen(at_home(progress))
    assert "Next        enter  study\n            1 card due and 2 cards to repeat\n" in screen(at_home(progress))
    for name in ("two", "three"):
        progress.review(f"ring/{name}", Grade.GOOD, START, START - START)
    seat = at_home(progress)
    assert "Due         1 card to repeat.\n" in screen(seat)
    press(seat, "s")
    assert seat.seen == [("study", False, 10)]
    for _ in range(3):
        progress.review("ring/one", Grade.AGAIN, START, START - START)
    assert "Due         Nothing is due now.\n" in screen(at_home(progress))  # it is left out for today


def test_home_names_the_labs_that_lessons_have_opened(progress):
    labs = [LabTitle("slow-ring", "ring", "A slow ring", 40), LabTitle("hooks", "ddp", "Hooks", 20)]

    session = context(progress, labs=labs)

    def shown():
        return " ".join(screen(Home(session)).split())

    progress.stage("ring/step-1", "done", START)
    assert 'Labs the next one comes after the lesson "The ring"' in shown()
    for name in ("ring", "ddp"):
        progress.stage(f"{name}/lesson", "done", START)
    assert 'Labs 2 open; the first is "A slow ring"' in shown()
    progress.lab(LabRow(item="ring/slow-ring", passed=True), START)
    assert 'Labs 1 passed; 1 open; the first is "Hooks"' in shown()
    assert "b lab" in screen(press(Home(session), "b"))
    assert session.opened == [("hooks", "")]


def test_home_offers_no_test_of_a_concept_whose_lesson_has_not_begun_once_one_has(progress):
    progress.stage("ring/step-1", "done", START)
    seat = at_home(progress)
    assert 'test "' not in screen(seat)
    assert "d demo" in screen(seat)  # of the lesson that has begun, about which t asks, too
    assert "questions about what you have begun" in screen(press(seat, "?"))
    progress.answer(answer_row("ddp/hooks", 1.0), START)
    assert "questions about what you have begun" in screen(press(at_home(progress), "?"))
    progress.stage("ring/lesson", "done", START)  # its cards can wait, and its test need not
    assert 'test "The ring"' in screen(at_home(progress))


def test_where_more_is_due_than_a_sitting_asks_home_says_how_many_one_asks(progress, monkeypatch):
    long_ago = START.replace(month=1)
    for name in ("one", "two"):
        progress.review(f"ring/{name}", Grade.GOOD, long_ago, START - START)
    assert "\n            2 cards due\n" in screen(at_home(progress))
    monkeypatch.setattr(standing, "CARDS_A_SITTING", 1)
    assert "\n            2 cards due; a sitting has 1\n" in screen(at_home(progress))


def test_what_is_hidden_is_neither_due_nor_new(progress):
    progress.review("ring/one", Grade.AGAIN, START, START - START)
    progress.suspend("ring/one", START)
    progress.suspend("ring/two", START)
    now = look(progress)
    assert (now.due, now.new, now.seen) == (0, 2, 0)


def test_new_cards_of_a_concept_that_was_proven_strong_are_not_on_offer(progress):
    before = look(progress)
    answer(progress, "ring/q", 1.0, count=60)
    now = look(progress)
    assert now.labels[mastery.Label.STRONG] == 1
    assert (before.new, now.new, now.new_today) == (len(RING.cards), 0, 0)


@pytest.mark.parametrize("width", [40, 60])
def test_it_fits_narrow_terminals(progress, width):
    answer(progress, "ring/q", 0.0, 8)
    shown = screen(at_home(progress), width)
    assert max(map(len, shown.splitlines())) <= width
    assert shown.endswith("? help · q quit")


def test_a_pipe_gets_the_page_with_the_commands(progress):
    console = style.console(io.StringIO(), width=80)
    layout.show(console, page(look(progress)))
    shown = console.file.getvalue()
    assert 'Next        ddpquiz learn  "The ring": lesson\n' in shown
    assert "  ddpquiz stats               see what you recall, and what you know well\n" in shown


def at_first(home):
    """Open the home of somebody who has done nothing yet and leaves the first question out."""
    terminal = sample(home)
    terminal.wait("1-3 answer")
    terminal.press("\x1b", "enter begin")
    return terminal


def test_the_command_in_a_terminal_leads_to_a_card_and_back(home):
    terminal = at_first(home)
    terminal.press("\r", "An idea")
    terminal.press("\x1b", "Next is stage 1 of 4: lesson")
    terminal.press("q", "enter begin")
    terminal.press("s", "Card 1/4")
    terminal.press(" ", "good")
    terminal.press("3", "Card 2/4")
    terminal.press("q", r"Nothing is due now\.\nNew +3 cards to learn today")
    terminal.press("i", "1 card, question or step on 1 day")
    terminal.press("q", "Tracks|Next")
    terminal.press("t", "Question 1/3")
    terminal.press("\x03", "stopped")
    terminal.press("d", "enter goes back")
    terminal.press("\r", "Next")
    terminal.press("q")
    assert terminal.end() == 0
    assert not any("Card 2/4" in line for line in terminal.lines)  # home has a summary of its own


def test_a_pipe_and_a_dumb_terminal_are_asked_nothing(home):
    assert "Commands" in piped(home).stdout
    terminal = sample(home, TERM="dumb")
    terminal.wait("ddpquiz doctor")
    assert terminal.end() == 0


def test_home_shows_where_you_stand(home):
    first = piped(home)
    assert first.stdout.startswith("ddpquiz\n\nddpquiz teaches distributed training")
    assert max(map(len, first.stdout.splitlines())) <= 80
    piped(home, "test", "ddp", "--seed", "1", lines=":x\n:x\n")
    second = piped(home).stdout
    assert "Due         1 card due now." in second
    assert "Weakest not known until a test says so; answers in lessons do not count" in " ".join(second.split())
    piped(home, "test", "ring", "--seed", "1", lines="x\nx\n:x\n")
    third = " ".join(piped(home).stdout.split())
    assert "Weakest The ring (ring): weak, 2–44%" in third


def test_q_is_named_after_where_it_leads_and_escape_leads_there_too(progress):
    seat = quizzing(progress)
    assert screen(seat).endswith("q quit")
    seat.context.back_to = "home"
    assert screen(seat).endswith("q home")
    assert screen(press(seat, "x")).endswith("q end")  # the result comes first
    cards = studying(progress, RING.cards)
    assert screen(cards).endswith("q quit")
    cards.context.back_to = "stages"
    assert screen(cards).endswith("q stages")
    assert press(cards, "escape").left


def test_home_does_not_contradict_a_path_that_was_left(home):
    terminal = at_first(home)
    terminal.press("\r", "An idea")
    terminal.press("\x1b", "q home")
    terminal.press("q", "enter begin · .* q quit")
    terminal.press("\r", "An idea")
    terminal.press("\x1b", "q home")
    terminal.press("\x1b", "enter begin · .* q quit")
    terminal.press("q")
    assert terminal.end() == 0
    said = [part for part in terminal.raw.split(LEAVE_SCREEN)[1:] if "ddpquiz learn" in part[:100]]
    assert len(said) == 1
    sentence = re.sub("\x1b\\[[0-9;]*m", "", said[0]).split("\r\n")[0]
    assert sentence == snapshot("Go on with ddpquiz learn; this screen, ddpquiz, shows what else there is.")


def test_keys_that_were_typed_before_home_was_drawn_open_nothing(home):
    terminal = at_first(home)
    terminal.press("\r", "An idea")
    terminal.press("\x1b", "q home")
    terminal.press("qtd", "enter begin")
    terminal.press("?", "Keys of this screen")
    terminal.press("qq")
    assert terminal.end() == 0
    assert "Question" not in terminal.raw


def test_no_track_is_the_weakest_without_a_verdict(progress):
    answer(progress, "ring/q", 0.0)
    assert "Tracks" not in screen(at_home(progress))
