"""The list of lessons: what it says of each, and how one is opened."""

from dataclasses import replace

from inline_snapshot import snapshot
from run_program import ddpquiz
from sample import DDP, RING, START
from sample_sittings import context, press, screen

from ddpquiz.curriculum.catalog import LabTitle
from ddpquiz.curriculum.concept import LessonStep
from ddpquiz.learning.log_rows import LabRow
from ddpquiz.terminal.sittings.lesson_list import LessonList

STEPS = replace(RING, steps=(LessonStep("One.", ask="bytes"), LessonStep("Two.", ask="steps")))
MANY = tuple(replace(DDP, id=f"ddp-{number}", title=f"DDP {number}") for number in range(1, 12))


class NotingList(LessonList):
    """Notes which lesson is opened."""

    def __init__(self, session):
        self.opened = []
        super().__init__(session)

    def learn(self):
        self.opened.append(self._marked.id)


def lessons(progress, *concepts):
    session = context(progress, concepts=concepts or (DDP, STEPS, *MANY))
    session.catalog = replace(session.catalog, core=("ddp", "ring"))
    session.back_to = "home"
    return NotingList(session)


def test_each_lesson_has_its_state_and_the_next_one_is_marked(progress):
    progress.stage("ddp/lesson", "done", START)
    progress.stage("ring/step-1", "done", START)
    progress.stage("ddp-1/lesson", "skipped", START)
    assert screen(lessons(progress, DDP, STEPS, *MANY[:2])) == snapshot("""\
Lessons · 2 of 4 done

Core route, to learn first
   ✓  1 DDP
      2 The ring  step 2 of 2

Collectives
  >-  3 DDP 1  next
      4 DDP 2

An idea.
enter go on · ↑ ↓ choose · / look up · ? help · q home\
""")


def test_a_lesson_that_is_done_says_that_its_lab_is_open(progress):
    seat = lessons(progress)
    seat.context.catalog = replace(seat.context.catalog, labs=(LabTitle("fast-ring", "ring", "A fast ring", 20),))
    progress.stage("ring/lesson", "done", START)
    assert "lab" not in screen(seat)
    for step in (1, 2):
        progress.stage(f"ring/step-{step}", "done", START)
    seat._look()
    assert "The ring  lab open\n" in screen(seat)
    progress.lab(LabRow(item="ring/fast-ring", passed=True), START)
    seat._look()
    assert "The ring\n" in screen(seat)


def test_a_lesson_is_chosen_with_the_arrows_or_by_its_number(progress):
    seat = press(lessons(progress), "enter", "down", "space", "up", "up", "enter", "1", "2", "enter", "5", "enter", "9")
    assert seat.opened == ["ddp", "ring", "ddp", "ddp-10", "ddp-3"]
    press(seat, "enter", *["down"] * 9, "enter", "home", "enter", "end", "enter", "q")
    assert seat.opened[-4:] == ["ddp-7", "ddp-11", "ddp", "ddp-11"]
    assert seat.left


def test_the_mark_goes_along_when_a_page_is_turned(progress):
    seat = lessons(progress)
    marked = [press(seat, key)._marked.id for key in ("pagedown", "pageup", "end", "pageup", "home")]
    assert marked == ["ddp-11", "ddp", "ddp-11", "ddp", "ddp"]
    assert seat._scrolling("pagedown") == ""


def test_after_some_lessons_the_mark_is_on_the_one_that_is_next_now(progress):
    seat = lessons(progress)

    def go_on_to_the_second():
        progress.stage("ddp/lesson", "done", START)
        progress.stage("ddp/cards", "skipped", START)
        progress.stage("ddp/questions", "skipped", START)

    seat.learn = go_on_to_the_second
    press(seat, "enter")
    assert screen(seat).splitlines()[4].split() == [">", "2", "The", "ring", "next"]


def test_home_leads_to_the_lessons_and_back(tmp_path):
    terminal = ddpquiz(home=tmp_path)
    terminal.wait("Which ranks will hold the sum")
    terminal.press("\x1b", "a lessons")
    terminal.press("a", "1 Why train on more than one device +next", "q home")
    terminal.press("22", "> +22 The parameter server")
    terminal.press("\r", "step 1 of 8 · The parameter server")
    terminal.press("\x1b", "1-2 stage", "q lessons")
    terminal.press("\x1b", "> +22 The parameter server")
    terminal.press("\x1b", "Core route")
    terminal.press("q")
    assert terminal.end() == 0
