"""What fits a screen of 80 x 24: the text of a step, its listing, and what the ranks print."""

import io
from dataclasses import replace

import pytest
from rich.console import Group

from ddpquiz.curriculum.concept import LessonStep, LineChange, Listing, Shows
from ddpquiz.curriculum.loading import load
from ddpquiz.terminal.kit import markdown
from ddpquiz.terminal.kit.highlight import python
from ddpquiz.terminal.kit.style import console
from ddpquiz.terminal.pages.lesson_steps import (
    changed_listing,
    diff,
    fits_beside,
    markdown_of,
    names_itself,
    text_parts,
    unfit,
    values_table,
)

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


def drawn(page, width):
    screen = console(io.StringIO(), width=width, color_system="256")
    return ["".join(part.text for part in line).rstrip() for line in screen.render_lines(page, pad=False)]


TEXTS = [
    *(text for each in load().concepts for step in each.steps for text in (step.text, step.then) if text),
    "A `list[int]` of *two*\nlines, and **more**.\n\n    code  here\n      more\n\nEnd.",
    "One.\n\n    code\n\n    after an empty line",
    "- a list\n- of two",
    "1. one\n2. two",
    "# Head\n\ntext",
    "Head\n===\ntext",
    "a | b\n--- | ---\n1 | 2",
    "with _underscores_ and \\* a backslash",
    "a ``double ` tick`` b",
    "[a link](https://pytorch.org)",
    "> said",
    "*\nlist",
    "a break  \nhere",
]


@pytest.mark.parametrize("width", [76, 40])
def test_texts_drawn_without_a_parser_look_as_its_rules_say(width):
    plain = [text for text in TEXTS if drawn(markdown_of(text), width) == drawn(markdown.markdown(text), width)]
    assert plain == TEXTS


def test_python_has_colors_and_what_is_none_is_left_alone():
    shown = python("for x in range(2):\n    print(f'{x}', y.all, 1.5)  # no\n")
    colored = [(shown.plain[span.start : span.end], span.style) for span in shown.spans]
    assert [each for each in colored if each[1] != "good"] == [
        ("for", "accent"),
        ("in", "accent"),
        ("range", "accent"),
        ("2", "warn"),
        ("print", "accent"),
        ("1.5", "warn"),
        ("# no", "quiet"),
    ]
    assert any(style == "good" for _, style in colored)
    for fragment in ("  x = 1\ny = (", 'x = """abc', "if x:\n        a\n   b", "a ? b", "$ torchrun x", "x = \\"):
        assert python(fragment).plain == fragment


def test_a_terminal_shows_the_drawing_and_nothing_of_the_picture():
    step = LessonStep("Before.\n\n    0 -> 1\n", ask="x")
    shown = drawn(Group(*text_parts(replace(step, picture="ring"))), 76)
    assert shown == drawn(Group(*text_parts(step)), 76) == ["Before.", "", "    0 -> 1"]


def test_each_new_line_of_a_change_is_marked_and_a_line_that_stays_is_not():
    change = LineChange("a(1)", "b(1)\nc(1)", Shows("1"))
    assert drawn(changed_listing("if x:\n    a(1)\n    d(1)", change), 40) == [
        "  if x:", "-     a(1)", "+     b(1)", "+     c(1)", "      d(1)",
    ]  # fmt: skip
    assert drawn(diff(LineChange("a(1)", "a(1)\nc(1)", Shows("1"))), 40) == ["    a(1)", "  + c(1)"]


def test_values_of_a_demo_that_are_too_wide_for_a_row_stand_in_a_row_for_each_rank():
    narrow = values_table(("sum",), {"sum": {0: "1", 1: "2"}}, 80)
    assert drawn(narrow, 80) == ["  │ rank  0  1", "  │ sum   1  2"]
    wide = {
        "before": dict.fromkeys(range(4), "0 1 2 3"),
        "after": dict.fromkeys(range(4), "undefined, 60 63 68"),
    }
    rows = drawn(values_table(("before", "after"), wide, 80), 80)
    assert rows[0] == "  │ rank  before   after"
    assert rows[1:] == [f"  │ {rank}     0 1 2 3  undefined, 60 63 68" for rank in range(4)]


def test_a_rank_is_named_beside_what_it_prints_unless_each_line_names_it():
    assert names_itself({0: "rank 0: a\nrank 0: b", 1: "rank 1: a", 2: ""})
    assert not names_itself({0: "rank 0 of 2\nonly rank 0 prints this", 1: "rank 1 of 2"})
