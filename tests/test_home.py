"""Home: what it says, and where its keys lead."""

import io

import pytest
from sample import DDP, RING, START
from seats import desk, press, screen
from test_sittings import Terminal, home, piped  # noqa: F401  home is a fixture

from ddpquiz.learning import advice, mastery
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Grade, study_day
from ddpquiz.terminal import layout, style
from ddpquiz.terminal.home import Home, page

DAY = study_day(START)
CONCEPTS = (RING, DDP)


@pytest.fixture
def progress(tmp_path):
    with Progress(tmp_path) as opened:
        yield opened


class Rooms:
    """Notes where the keys led."""

    def __init__(self):
        self.seen = []

    def study(self, *, ahead):
        self.seen.append(("study", ahead))

    def test(self):
        self.seen.append("test")

    def lesson(self, concept):
        return f"the lesson of {concept.id}"

    def stats(self):
        return "the statistics"


def look(progress):
    strengths = mastery.strengths(progress.last_answers(), DAY)
    return advice.standing(CONCEPTS, progress.memories(), strengths, DAY, hidden=progress.hidden(DAY), streak=3)


def at_home(progress):
    rooms = Rooms()
    return Home(desk(progress), lambda: look(progress), rooms), rooms


def answer(progress, question, credit, count=1):
    for number in range(count):
        progress.answer(f"{question}{number}", credit, START, took=START - START, given="", level="medium", chance=0.25)


def test_the_first_screen_is_three_sentences_and_the_first_card(progress):
    seat, rooms = at_home(progress)
    assert screen(seat) == (
        "ddpquiz\n\n"
        "ddpquiz teaches distributed training: cards to recall, questions to answer, and\n"
        "demos that run real ranks here. What you learn comes back just before you would\n"
        "forget it, and every answer is kept at once. Whatever an answer claims, you can\n"
        "run it: press `d` for the demo and `p` for the proof.\n\n"
        "enter first card · s study · t test · l learn · d demo · ? help · q quit"
    )
    press(seat, "enter")
    assert rooms.seen == [("study", False)]


def test_it_tells_where_the_learner_stands_and_what_is_best_done_next(progress):
    for name in ("one", "two"):
        progress.review(f"ring/{name}", Grade.AGAIN, START, START - START)
    answer(progress, "ring/q", 0.0, 8)
    assert screen(at_home(progress)[0]) == (
        "ddpquiz\n\n"
        "Due      2 cards due now. 4 new for today, 4 in all.\n"
        "7 days   none\n"
        "Streak   3 days in a row\n"
        "Weakest  The ring (ring): weak: by 8 answers you know 2% to 22% of it\n\n"
        "Tracks, the weakest first\n"
        "  collectives  1 weak, 1 unknown\n\n"
        "Next\n"
        "  ddpquiz study       2 cards due\n"
        "  ddpquiz learn ring  your weakest concept, weak: by 8 answers you know 2% to\n"
        "                      22% of it\n"
        "  ddpquiz test ddp    not tested yet\n\n"
        "s study · t test · l learn · i stats · ? help · q quit"
    )


def test_each_key_leads_where_it_says_and_back(progress):
    answer(progress, "ddp/q", 0.5)
    seat, rooms = at_home(progress)
    press(seat, "s", "t")
    assert rooms.seen == [("study", False), "test"]
    assert screen(press(seat, "l")) == "the lesson of ring\nesc back · ↑ ↓ scroll"
    assert "Next" in screen(press(seat, "escape"))
    assert screen(press(seat, "i")) == "the statistics\nesc back · ↑ ↓ scroll"
    assert "Next" in screen(press(seat, "q"))
    assert not seat.left
    press(seat, "d")
    assert seat.desk.actions.started == ["allreduce"]
    press(seat, "q")
    assert seat.left


def test_what_was_done_elsewhere_is_seen_when_one_comes_back(progress):
    seat, rooms = at_home(progress)
    rooms.study = lambda **_: progress.review("ring/one", Grade.AGAIN, START, START - START)
    before = seat.scene
    assert "1 card due now. 5 new for today" in screen(press(seat, "enter"))
    assert seat.scene != before


def test_with_nothing_due_and_nothing_new_for_today_one_can_study_ahead(progress):
    for card in (*RING.cards, *DDP.cards):
        progress.review(card.key, Grade.EASY, START, START - START)
    seat, rooms = at_home(progress)
    assert "s study ahead" in screen(seat)
    press(seat, "s")
    assert rooms.seen == [("study", True)]


def test_what_is_hidden_is_neither_due_nor_new(progress):
    progress.review("ring/one", Grade.AGAIN, START, START - START)
    progress.suspend("ring/one", START)
    progress.suspend("ring/two", START)
    now = look(progress)
    assert (now.due, now.new, now.seen) == (0, 4, 0)


def test_new_cards_of_a_concept_that_was_proven_strong_are_not_on_offer(progress):
    before = look(progress)
    answer(progress, "ring/q", 1.0, count=60)
    now = look(progress)
    assert now.labels[mastery.Label.STRONG] == 1
    assert (before.new, now.new, now.new_today) == (6, len(DDP.cards), len(DDP.cards))


@pytest.mark.parametrize("width", [40, 60])
def test_it_fits_narrow_terminals(progress, width):
    answer(progress, "ring/q", 0.0, 8)
    shown = screen(at_home(progress)[0], width)
    assert max(map(len, shown.splitlines())) <= width
    assert shown.endswith("? help · q quit")


def test_a_pipe_gets_the_page_with_the_commands(progress):
    console = style.console(io.StringIO(), width=80)
    layout.show(console, page(look(progress)))
    shown = console.file.getvalue()
    assert "Next\n  ddpquiz study" in shown
    assert "  ddpquiz stats               what you recall, and how strong you are\n" in shown


def test_the_command_in_a_terminal_leads_to_a_card_and_back(home):  # noqa: F811
    terminal = Terminal(home)
    terminal.wait("enter first card")
    terminal.press("\r", "Card 1/6")
    terminal.press(" ", "good")
    terminal.press("3", "Card 2/6")
    terminal.press("q", r"Nothing is due now\. 5 new for today")
    terminal.press("i", "1 card or question on 1 day")
    terminal.press("q", "Tracks|Next")
    terminal.press("t", "Question 1/5")
    terminal.press("\x03", "stopped")
    terminal.press("d", "enter goes back")
    terminal.press("\r", "Next")
    terminal.child.send("q")
    assert terminal.end() == 0


def test_a_pipe_and_a_dumb_terminal_are_asked_nothing(home):  # noqa: F811
    assert "Commands" in piped(home).stdout
    terminal = Terminal(home, TERM="dumb")
    terminal.wait("ddpquiz doctor")
    assert terminal.end() == 0
