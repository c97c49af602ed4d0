"""The first minutes: a question that anybody can answer, and four real ranks that answer it."""

import re

import pytest
from run_program import LEAVE_SCREEN, ddpquiz, log
from sample_sittings import NotedRanks, press, screen

from ddpquiz.terminal.sittings.first_screen import FirstContact


def first(home, **how):
    return ddpquiz(home=home, **how)


def said(terminal):
    return " ".join(terminal.text.split())


@pytest.mark.parametrize(
    ("key", "verdict"),
    [("3", "✓ Right: each rank has printed"), ("1", "✗ You said: only rank 0, to which the others send.")],
)
def test_one_key_answers_and_four_ranks_confirm_it_and_nothing_counts(tmp_path, key, verdict):
    terminal = first(tmp_path)
    terminal.wait("Which ranks will hold the sum")
    terminal.press(key, "enter go on")
    assert re.findall(r"^ +rank (\d) +(\d) +→ (\d+)$", terminal.text, re.MULTILINE) == [
        ("0", "1", "10"), ("1", "2", "10"), ("2", "3", "10"), ("3", "4", "10"),
    ]  # fmt: skip
    assert verdict in said(terminal)
    assert "This answer does not count. The first lesson is next." in said(terminal)
    terminal.press("\r", "Why train on more than one device")
    terminal.press("q", "0 of 22 lessons")
    terminal.press("q")
    assert terminal.end() == 0
    assert [kind for kind, *_ in log(tmp_path) if kind != "stage"] == []


@pytest.mark.parametrize(("width", "height"), [(60, 20), (80, 24), (120, 40)])
def test_it_fits_the_screen_before_and_after_the_answer(tmp_path, width, height):
    terminal = first(tmp_path, width=width, height=height, NO_COLOR="1")
    terminal.wait("Which ranks will hold the sum", "q quit")
    assert " more below" not in terminal.text
    terminal.press("2", "enter go on")
    assert " more below" not in terminal.text
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", terminal.raw)


def test_who_leaves_it_out_comes_to_the_home_screen_and_q_leaves(tmp_path):
    terminal = first(tmp_path)
    terminal.wait("Which ranks will hold the sum")
    terminal.press("x", "lists the keys")
    terminal.press("?", "Keys of this screen")
    terminal.press("?", "1-3 answer")
    terminal.press("\x1b", "Next +enter")
    terminal.press("q")
    assert terminal.end() == 0
    terminal = first(tmp_path)
    terminal.wait("Which ranks will hold the sum")
    terminal.press("q")
    assert terminal.end() == 0
    assert terminal.raw.split(LEAVE_SCREEN)[-1].startswith("You have not begun yet:")
    assert log(tmp_path) == []


def test_ctrl_c_while_the_ranks_start_ends_them(tmp_path):
    terminal = first(tmp_path)
    terminal.wait("Which ranks will hold the sum")
    terminal.press("1", "You said: only rank 0")
    terminal.press("\x03")
    assert terminal.end() == 130


def test_who_has_done_something_is_not_asked(tmp_path):
    terminal = ddpquiz("study", home=tmp_path)
    terminal.wait("Card 1/")
    terminal.press(" ", "forgot")
    terminal.press("3", "Card 2/")
    terminal.press("q")
    assert terminal.end() == 0
    assert "enter go on" in first(tmp_path).wait("q quit")


def test_ranks_that_cannot_run_are_told_and_the_way_goes_on():
    contact = FirstContact(NotedRanks(), "The first")
    press(contact, "1")
    contact._failed = "torch cannot be imported."
    shown = screen(contact)
    assert "torch cannot be imported.\n`ddpquiz doctor` says what is missing." in shown
    press(contact, "space")
    assert contact.goes_on
