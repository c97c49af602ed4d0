"""Explaining at the keyboard, as text on screens."""

import io
import sqlite3
from dataclasses import replace

import pytest
from inline_snapshot import snapshot
from sample import WHY_RING
from sample_sittings import explaining, press, saved_explanations, screen, spoken, type_text

from ddpquiz.terminal.kit import style

OTHER = replace(WHY_RING, id="other", ask="And once more?")


def test_what_is_written_stands_above_the_keys(progress):
    seat = type_text(explaining(progress), "The root is a bottleneck.\nq?u1")
    assert screen(seat) == (
        snapshot("""\
Explain 1/1 · The ring

Why a ring, and not a root?
in your own words; to finish, press ctrl+d, or enter on an empty line

> The root is a bottleneck.
  q?u1_
ctrl+d check · esc then: h hint · e editor · s skip · d demo · ? help · q quit""")
    )


def test_the_learner_ticks_points_beside_a_model_answer_and_none_is_ticked_in_advance(progress):
    seat = type_text(explaining(progress), "The root is a bottleneck.\nOther links do not idle.\n\n")
    assert screen(seat) == (
        snapshot("""\
Explain 1/1 · The ring

Why a ring, and not a root?

Your text
  The root is a bottleneck.
  Other links do not idle.

A model answer
  A root sends and receives everything.

A good answer makes these points
Compare your text with the model answer. To tick a point that you made, or to
untick it, press its number.

○ 1  the root's link is the bottleneck
○ 2  the other links idle meanwhile
○ 3  each rank sends less than two tensors

You ticked 0 of 3 points.

enter go on · 1-3 tick · u undo · d demo · f flag · ? help · q quit\
""")
    )
    text = "The root is a bottleneck.\nOther links do not idle."
    assert saved_explanations(progress) == [("ring/why-ring", 0.0, text, [False, False, False])]
    assert "✓ 2  the other links idle meanwhile\n" in screen(press(seat, "2"))
    assert saved_explanations(progress) == [("ring/why-ring", pytest.approx(1 / 3), text, [False, True, False])]
    press(seat, "2", "1", "4", "0")
    assert saved_explanations(progress) == [("ring/why-ring", pytest.approx(1 / 3), text, [True, False, False])]
    assert [row.kind for row in progress.log()] == ["explanation", *["undo", "explanation"] * 3]


def test_the_keys_that_grade_are_named_when_they_do(progress):
    seat = explaining(progress)
    assert "\nctrl+d check · esc then: h hint" in screen(press(seat, "A", "enter", "b"))
    assert "\nctrl+d/enter check · esc then: h hint" in screen(press(seat, "enter"))
    assert press(seat, "enter").state.checking


def test_a_paste_is_text_to_its_end_and_no_key_of_it_acts(progress):
    seat = press(explaining(progress), "paste:A bottleneck.\n\nq others idle\n")
    assert not seat.state.checking
    assert seat.text == snapshot("A bottleneck.\n\nq others idle\n")
    assert press(seat, "escape", "paste:s").text.endswith("\ns")
    assert press(seat, "backspace", "enter").state.checking
    before = screen(seat)
    press(seat, "paste:q123\n")
    assert screen(seat) == before
    assert not seat.left


def test_of_a_long_text_the_end_stays_in_sight(progress):
    seat = press(explaining(progress), "paste:" + "\n".join(f"line {number} " + "word " * 40 for number in range(9)))
    *_, above, first, second, third, fourth, fifth, last, keys = screen(seat).splitlines()
    assert above == ""
    assert first.startswith("> line 7 word")
    assert [line[:2] for line in (second, third, fourth, fifth, last)] == ["  "] * 5
    assert fourth.startswith("  line 8 word")
    assert last.endswith(" word _")
    assert keys.startswith("ctrl+d check")


def test_an_objection_that_cannot_be_saved_does_not_remove_the_explanation(progress):
    seat = type_text(explaining(progress), "A bottleneck\n\n")
    full = "BEFORE INSERT ON log WHEN new.kind = 'explanation' BEGIN SELECT raise(ABORT, 'full'); END"
    progress._database.execute(f"CREATE TEMP TRIGGER full {full}")  # an undo is smaller, and may still be written
    with pytest.raises(sqlite3.IntegrityError, match="full"):
        press(seat, "2")
    assert saved_explanations(progress) == [("ring/why-ring", 0.0, "A bottleneck", [False] * 3)]


def test_undo_goes_back_to_the_text_to_write_on(progress):
    seat = type_text(explaining(progress), "A bottleneck\n\n")
    assert "> A bottleneck_" in screen(press(seat, "u"))
    assert saved_explanations(progress) == []
    type_text(seat, ", others idle")
    press(seat, "ctrl+d", "enter")
    assert screen(seat) == (
        snapshot("""\
Done: 0 of 3 points are ticked by you.

Not ticked
  • the root's link is the bottleneck
  • the other links idle meanwhile
  • each rank sends less than two tensors

Next
  ddpquiz learn ring  read about it
  ddpquiz test ring   find out how well you know it

enter leave · u undo · ? help\
""")
    )
    assert "> A bottleneck, others idle_" in screen(press(seat, "u"))


def test_a_text_left_for_another_prompt_is_there_again_and_is_saved(progress):
    seat = press(type_text(explaining(progress, WHY_RING, OTHER, drafts={"ring/other": "old"}), "begun"), "escape", "s")
    assert "> old_" in screen(seat)
    assert seat.begun == {"ring/why-ring": "begun", "ring/other": "old"}
    assert "> begun_" in screen(press(seat, "escape", "u"))
    assert seat.note == "Your unfinished text is back."
    press(type_text(seat, " idle\n\n"), "enter")
    assert "> old and more_" in screen(type_text(seat, " and more"))
    assert "> begun idle_" in screen(press(seat, "escape", "u"))  # back to the one before, to write on
    assert seat.begun == {"ring/why-ring": "begun idle", "ring/other": "old and more"}
    assert "> old and more_" in screen(press(seat, "ctrl+d", "enter"))
    press(seat, *["backspace"] * 12, "escape", "s")
    assert seat.begun == {"ring/why-ring": "", "ring/other": ""}


def test_where_lines_are_read_what_was_begun_before_is_shown(progress):
    text = spoken(explaining(progress, drafts={"ring/why-ring": "The bottleneck"}), "others idle", "")
    shown, judged = text.split("A good answer makes these points")
    assert "  The bottleneck\n" in shown
    assert shown.count("Your unfinished text from last time is back.") == 1
    assert "here again" not in judged


def test_commands_come_after_escape_and_other_letters_are_text(progress):
    seat = press(explaining(progress, WHY_RING, OTHER), "escape", "h")
    assert "Hint  Count the bytes on the busiest link.\n" in screen(seat)
    assert "h hint" not in screen(seat)
    press(seat, "x", "escape", "d")
    assert seat.context.ranks.started == ["allreduce"]
    assert "> x_" in screen(seat)
    assert "Explain 2/2" in screen(press(seat, "escape", "s"))
    assert "Explain 1/2" in screen(press(seat, "escape", "u"))
    assert press(seat, "escape", "q").left


def test_an_empty_text_is_not_an_explanation(progress):
    assert "Write a sentence or two first; esc s skips." in screen(press(explaining(progress), "enter"))
    assert progress.log() == []


def test_where_lines_are_read_an_empty_one_ends_the_text(progress):
    seat = explaining(progress, WHY_RING, OTHER)
    text = spoken(seat, ":h", "A bottleneck", "others idle", "", "3", "", ":s")
    assert "Count the bytes on the busiest link.\n" in text
    assert "You ticked 0 of 3 points.\n" in text
    assert "You ticked 1 of 3 points.\n" in text
    assert saved_explanations(progress) == [
        ("ring/why-ring", pytest.approx(1 / 3), "A bottleneck\nothers idle", [False, False, True])
    ]
    assert seat.over
    console = style.console(io.StringIO(), width=80)
    explaining(progress).by_lines.read(console, ["a"], asked=True)
    assert "empty line check · :h hint · :e editor" in console.file.getvalue()


def test_a_question_mark_opens_the_help_until_something_is_typed(progress):
    seat = explaining(progress)
    assert press(seat, "?").helping
    assert not press(seat, "?").helping
    seat = press(type_text(seat, "Why"), "?")
    assert (seat.helping, seat.text) == (False, "Why?")


def test_a_key_after_escape_that_is_not_a_command_is_text(progress):
    seat = press(type_text(explaining(progress), "Idl"), "escape")
    assert "command: _" in screen(seat)
    assert "> Idl1_" in screen(press(seat, "1"))


def test_enter_shows_the_next_page_of_points_before_it_confirms_them(progress):
    seat = explaining(progress)
    assert seat.turning == ()
    type_text(seat, "It is a ring.")
    press(seat, "ctrl+d")
    assert seat.turning == ("space", "enter")
