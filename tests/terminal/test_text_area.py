"""The text that a learner writes: the cursor moves in it, and long lines are folded."""

import pytest
from inline_snapshot import snapshot
from run_program import sample
from sample_sittings import explaining, press, screen, type_text


def test_the_line_is_edited_at_its_end(progress):
    seat = type_text(explaining(progress), "one\ntwo")
    assert press(seat, "backspace").text == snapshot("one\ntw")
    assert press(seat, "ctrl+u").text == "one\n"
    assert press(seat, "ctrl+u").text == "one"
    assert press(seat, "up", "tab", "ctrl+a").text == "one "


def test_the_cursor_moves_in_the_text_and_keys_act_where_it_stands(progress):
    seat = type_text(explaining(progress), "one\ntwo")
    assert type_text(press(seat, "left", "left"), "x").text == snapshot("one\ntxwo")
    assert press(seat, "delete").text == snapshot("one\ntxo")
    assert press(seat, "backspace").text == snapshot("one\nto")
    assert type_text(press(seat, "home"), "a").text == snapshot("one\nato")
    assert type_text(press(seat, "end"), "b").text == snapshot("one\natob")
    assert type_text(press(seat, "up"), "c").text == snapshot("onec\natob")
    assert press(seat, "ctrl+a", "paste:d\ne").text == snapshot("d\neonec\natob")
    assert press(seat, "ctrl+u").text == snapshot("d\nonec\natob")
    assert press(seat, "ctrl+u", "ctrl+u", "ctrl+u").text == snapshot("onec\natob")
    assert press(seat, "left", "up", "backspace", "ctrl+e", "down", "down", "end", "right", "delete").text == snapshot(
        "onec\natob"
    )
    press(seat, "up", "home", "enter", "up")  # an empty line above text does not end it
    assert press(seat, "enter").text == snapshot("\n\nonec\natob")
    assert not seat.state.checking
    assert press(seat, "ctrl+d").state.checking


def test_up_and_down_move_by_the_rows_that_are_seen(progress):
    seat = explaining(progress)
    seat.foot(23)  # the text has 20 columns
    press(seat, "paste:aaaa bbbb cccc dddd eeee ffff gggg hhhh\nij")
    assert type_text(press(seat, "up"), "X").text == snapshot("aaaa bbbb cccc dddd eeXee ffff gggg hhhh\nij")
    assert type_text(press(seat, "up"), "Y").text == snapshot("aaaYa bbbb cccc dddd eeXee ffff gggg hhhh\nij")
    assert type_text(press(seat, "down", "down"), "Z").text.endswith("\nijZ")


def test_of_a_long_text_the_rows_around_the_cursor_are_seen(progress):
    seat = press(explaining(progress), "paste:" + "\n".join(f"line {number}" for number in range(9)))
    assert "\n\n> line 3\n" in screen(seat)
    press(seat, *["up"] * 6)
    assert "\n\n> line 0\n  line 1\n  line 2_\n  line 3\n  line 4\n  line 5\nctrl+d" in screen(seat)
    assert "\n\n> line 1\n  line 2\n  line 3\n" in screen(press(seat, "down", "left"))


@pytest.mark.parametrize("width", [40, 60])
def test_long_lines_are_folded(progress, width):
    seat = type_text(explaining(progress), "word " * 30)
    assert max(map(len, screen(seat, width).splitlines())) <= width
    seat = type_text(seat, "\n\n")
    assert max(map(len, screen(seat, width).splitlines())) <= width


def test_a_word_is_corrected_in_a_terminal_with_the_keys_that_move(home):
    terminal = sample(home, "explain", "ring", NO_COLOR="1")
    terminal.wait("Why a ring")
    terminal.press("Te bottleneck\rothrs idle", "othrs idle_")
    up, down, right, left, start, end, delete = (f"\x1b[{code}" for code in ("A", "B", "C", "D", "H", "F", "3~"))
    terminal.press(f"{start}{up}{right}h", "> The bottleneck\n  othrs idle$")
    (row,) = (y for y, line in enumerate(terminal.screen.display) if "The bottleneck" in line)
    assert [x for x in range(80) if terminal.screen.buffer[row][x].reverse] == [4]  # the cursor is on the e
    terminal.press(f"{down}{right}ex", "  othexrs idle$")
    terminal.press(f"{left}{delete}", "  others idle$")
    terminal.press(f"{end}x", "  others idlex_")
    terminal.press("\x7f\x04", "You ticked 0 of 3 points")
    terminal.press("q")
    assert terminal.end() == 0
