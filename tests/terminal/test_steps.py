"""Steps as a terminal of 80 x 24 draws them: whether text, listing and results fit, and drawings."""

from dataclasses import replace

import pytest
from rich.console import Group
from sample_catalog import drawn

from ddpquiz.curriculum.concept import LessonStep, LineChange, Listing, Shows
from ddpquiz.terminal.pages.steps import fits_beside, text_parts, unfit

LINES = "\n".join(["print(1)"] * 17)
ROWS = "\n\n".join(["A paragraph."] * 9)  # 17 rows


def step(text="Text.", code="print(1)", shows="1", then="", change=None):
    return LessonStep(text, Listing(2, code, Shows(shows), change), then=then)


def test_what_fits_exactly_is_fine_and_text_and_listing_may_have_a_screen_each():
    assert [*unfit(step(ROWS, LINES))] == []
    assert not fits_beside(step(ROWS, LINES), 80, 24)
    assert fits_beside(step(), 80, 24)
    assert fits_beside(step(ROWS, LINES), 80, 50)


@pytest.mark.parametrize(
    ("wrong", "complaints"),
    [
        (step(ROWS + "\n\nOne more."), [("text", "19 rows; at most 17 of 76 columns fit a screen")]),
        (step(code=LINES + "\nprint(1)"), [("run", "18 rows; at most 17 of 76 columns fit a screen")]),
        (step(code=f"print({'1' * 68})"), [("run", "a line of `code` has 75 columns; at most 74 fit a screen")]),
        (
            step(shows="\n".join("12345678")),
            [],
        ),
        (
            step(shows="\n".join("123456789"), then="It means."),
            [("run", "what the ranks print and `then` take 20 rows; at most 17 fit a screen")],
        ),
        (
            step(change=LineChange("print(1)", "print(2)", Shows("\n".join("12345678")), "It means.")),
            [("change", "what the ranks print and `then` take 21 rows; at most 17 fit a screen")],
        ),
    ],
    ids=["a text", "a listing", "a line", "an output that fits", "an output", "the output of a change"],
)
def test_what_does_not_fit_is_named(wrong, complaints):
    assert [*unfit(wrong)] == complaints


def test_a_terminal_shows_the_drawing_and_nothing_of_the_picture():
    text = LessonStep("Before.\n\n```drawing\n0 -> 1\n```", ask="x")
    assert drawn(Group(*text_parts(text))) == drawn(Group(*text_parts(replace(text, picture="ring"))))
    assert "0 -> 1" in drawn(Group(*text_parts(text)))
