"""Answers as they are typed: keys, lines of text, and the commands after escape."""

import io
from dataclasses import replace

import pytest
from inline_snapshot import snapshot
from sample import BYTES, HOOKS, PHASES, PRINTS, STEPS
from sample_sittings import press, quizzing, screen

from ddpquiz.curriculum.posed_question import expected
from ddpquiz.terminal.kit import style


def test_several_options_are_toggled_and_given_with_enter(progress):
    seat = press(quizzing(progress, PHASES), "1", "3", "1", "2")
    assert " [ ] 1  barrier\n [x] 2  reduce-scatter\n [x] 3  broadcast\n [ ] 4  all-gather\n" in screen(seat)
    assert (
        "✓>2  reduce-scatter\n✗>3  broadcast\n     A broadcast copies from one rank.\n✓ 4  all-gather\n     missed: this is right too\n"
        in screen(press(seat, "enter"))
    )


def test_a_number_is_typed_with_its_unit_too(progress):
    seat = press(quizzing(progress, STEPS), *"18e2", "backspace", "backspace", *"00 bytes")
    assert "> 1800 bytes_ bytes" in screen(seat)
    seat = press(seat, "enter")
    assert "✓ Right.\n" in screen(seat)
    assert "right  1,800 bytes\n" in screen(seat)


@pytest.mark.parametrize("question", [STEPS, HOOKS, PRINTS], ids=lambda question: question.kind)
def test_in_typed_answers_of_every_kind_letters_are_text_and_commands_come_after_escape(progress, question):
    first = "h" if question is PRINTS else "2"
    seat = press(quizzing(progress, question, BYTES, BYTES), first, *"sxu?q d")
    assert f"> {first}sxu?q d_" in screen(seat)
    assert (seat.quiz.place, seat.quiz.hints, seat.left) == (0, 0, False)
    assert "> _" in screen(press(seat, "ctrl+u"))
    assert "x solution · s skip" in screen(press(seat, "escape"))
    assert "esc:" not in screen(seat)
    assert "command: _" in screen(press(quizzing(progress, question), "escape"))
    assert "Press q to leave; everything is saved already." in screen(press(seat, "escape"))
    assert "command: _" in screen(seat)
    press(seat, "s")
    assert seat.quiz.place == 1
    press(seat, "u")
    assert seat.quiz.place == 0
    assert "This is the solution" in screen(press(seat, "escape", "x"))
    assert not press(seat, "q").left  # first it shows the score
    assert screen(seat).startswith("Done: 0 of 1 right, 2 not answered.\n")
    assert press(seat, "q").left
    assert press(quizzing(progress, question), "escape", "q").left


def test_an_answer_that_is_typed_stays_in_sight_when_the_question_is_tall(progress):
    console = style.console(io.StringIO(), width=40)
    console.print(press(quizzing(progress, PRINTS), *"[4.").foot(40))
    assert console.file.getvalue() == snapshot("> [4._ \nenter answer · esc then: ? help · q quit\n")


def test_a_key_after_escape_that_is_not_a_command_goes_on_with_the_text(progress):
    seat = press(quizzing(progress, STEPS), "escape")
    assert "command: _ (press its key; any other key goes back to the text)\nx solution" in screen(seat)
    assert "> 1_" in screen(press(seat, "1"))
    assert "> 1_" in screen(press(seat, "escape", "backspace"))


def test_escape_frees_the_keys_and_once_more_leads_one_level_back(progress):
    seat = quizzing(progress, STEPS)
    seat.context.back_to = "home"
    assert not press(seat, *"18", "escape").left
    assert press(seat, "escape").left


def test_help_names_what_comes_after_escape(progress):
    shown = screen(press(quizzing(progress, PRINTS), "escape", "?"))
    assert "enter  submit your answer (← → home end move within it, ctrl+u clears it)\n" in shown
    assert "esc x  show the solution; the question then earns nothing\n" in shown


def test_what_was_typed_is_still_there_after_looking_back(progress):
    seat = press(quizzing(progress, BYTES, STEPS), "2", "enter", *"18", "escape", "u", "enter")
    assert "> 18_ bytes" in screen(seat)


def test_a_cursor_moves_in_an_answer_that_is_typed(progress):
    seat = press(quizzing(progress, STEPS), *"8000", "home", "1", "right", "right", "right", "delete", "left", "left")
    assert "> 1800 bytes" in screen(seat)
    assert seat._scrolling("home") == ""
    assert seat._scrolling("end") == ""
    assert seat._scrolling("pagedown") == "pagedown"
    assert "✓ Right" in screen(press(seat, "enter"))


@pytest.mark.parametrize("question", [STEPS, HOOKS], ids=lambda question: question.kind)
def test_before_the_first_digit_letters_are_keys(progress, question):
    hinted = replace(question, hints=("Count.", "Add."))
    seat = quizzing(progress, hinted, BYTES)
    assert "\nenter answer · h hint (2) · x solution · s skip" in screen(seat)
    assert "Hint 1  Count." in screen(press(seat, "h"))
    assert "\nenter answer · esc then: h hint (1) · x solution" in screen(press(seat, "1"))
    assert "> 1h_" in screen(press(seat, "h"))
    assert "Hint 2  Add." in screen(press(seat, "backspace", "backspace", "h"))
    assert "> x_" in screen(press(seat, "paste:x"))
    assert "This is the solution" in screen(press(seat, "ctrl+u", "x"))


@pytest.mark.parametrize("letter", list("hxsuf"))
def test_a_key_that_is_given_as_an_answer_is_not_judged(progress, letter):
    seat = press(quizzing(progress, PRINTS), letter, "enter")
    assert f"`{letter}` is a key: press esc, then {letter}.\n" in screen(seat)
    assert "> _" in screen(seat)
    assert progress.log() == []


def test_a_letter_that_is_the_answer_is_one(progress):
    assert "✓ Right" in screen(press(quizzing(progress, replace(PRINTS, answer="d")), "d", "enter"))


def test_what_is_not_an_answer_is_asked_for_again(progress):
    seat = press(quizzing(progress, STEPS), "-", "enter")
    assert "Answer with a number (in bytes), such as 1800, 1.8e3 or 3/4." in screen(seat)
    assert progress.log() == []
    seat = press(seat, "backspace", *"2400", "enter")
    assert "✗ Wrong. That is the limit for very many ranks.\n\n" in screen(seat)
    assert "yours  2,400 bytes\nright  1,800 bytes\n\n" in screen(seat)


def test_lines_are_ordered_by_their_digits(progress):
    seat = press(quizzing(progress, HOOKS), "3", "3", "1")
    assert "> 331_" in screen(seat)
    seat = press(seat, "enter")
    assert "Give each number from 1 to 3 once, in order, such as 2 1 3." in screen(seat)
    seat = press(seat, "backspace", "backspace")
    assert "Give each number" not in screen(seat)
    seat = press(seat, *"1 2", "enter")
    right = expected(seat.quiz.answer.posed)
    assert f"right  {right}\n" in screen(seat)


def test_what_is_printed_is_typed_on_after_a_hint(progress):
    seat = press(quizzing(progress, PRINTS), *"[4.", "escape", "h")
    assert "Hint 1  SUM is the default." in screen(seat)
    seat = press(seat, *"0,", "space", *"6.0]", "enter")
    assert "✓ Right, with a hint: half a point." in screen(seat)


@pytest.mark.parametrize("question", [STEPS, HOOKS], ids=["number", "order"])
def test_a_letter_that_cannot_begin_an_answer_is_told_so_and_is_not_entered(progress, question):
    seat = press(quizzing(progress, question), "z")
    assert "z does nothing here; ? lists the keys.\n> _" in screen(seat)
    assert "> 2_" in screen(press(seat, "2"))
    assert progress.log() == []


def test_a_proof_is_not_shown_before_a_number_is_given(progress):
    seat = press(quizzing(progress, STEPS), "p")
    assert "There is no proof here; ? lists the keys.\n> _" in screen(seat)


def test_a_number_may_be_a_formula_or_have_an_exponent(progress):
    assert "> log2(8) * 1e3_" in screen(press(quizzing(progress, STEPS), *"log2(8) * 1e3"))
