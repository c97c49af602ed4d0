"""A key of the table that a screen does not offer changes nothing there, and the screen says what to press instead."""

import pytest
from sample import BYTES, CARDS, PHASES, RING
from sample_sittings import context, explaining, press, quizzing, studying, type_text

from ddpquiz.learning.quiz import Rules
from ddpquiz.terminal.sittings.home_screen import Home
from ddpquiz.terminal.sittings.path_screen import PathScreen
from ddpquiz.terminal.sittings.prediction import PredictionScreen

EXAM = Rules(exam=True)
SCREENS = {
    "front": lambda progress: studying(progress, CARDS),
    "back": lambda progress: press(studying(progress, CARDS), "space"),
    "end of study": lambda progress: press(studying(progress, CARDS[:1]), "space", "3"),
    "found": lambda progress: press(studying(progress, CARDS), "/", *"front", "enter"),
    "question": lambda progress: quizzing(progress, BYTES, PHASES),
    "several options": lambda progress: quizzing(progress, PHASES),
    "verdict": lambda progress: press(quizzing(progress, BYTES, PHASES), "1"),
    "end of a test": lambda progress: press(quizzing(progress, BYTES), "1", "enter"),
    "overview": lambda progress: press(quizzing(progress, BYTES, PHASES, rules=EXAM), "1", "q"),
    "end of an exam": lambda progress: press(quizzing(progress, BYTES, rules=EXAM), "1", "q"),
    "one verdict": lambda progress: press(quizzing(progress, BYTES, rules=EXAM), "1", "q", "1"),
    "points": lambda progress: press(type_text(explaining(progress), "A ring."), "ctrl+d"),
    "home": lambda progress: Home(context(progress)),
    "stages": lambda progress: press(PathScreen(context(progress), RING), "escape"),
    "lesson of a path": lambda progress: PathScreen(context(progress), RING),
    "prediction": lambda progress: PredictionScreen(quizzing(progress, BYTES).quiz.posed, "allreduce"),
}


@pytest.mark.parametrize("key", [*"udplher/7y", "space", "enter"])
@pytest.mark.parametrize("shown", SCREENS)
def test_a_key_that_is_not_offered_changes_nothing_and_is_answered(progress, shown, key):
    seat = SCREENS[shown](progress)
    before, rows = seat.scene, progress.log()
    if not any(key in each.names for each in seat.all_keys()):
        press(seat, key)
        assert (seat.scene, seat.left, progress.log()) == (before, False, rows)
        assert seat.note
