"""Questions on the screen, as text."""

import io
import random
import sys
from dataclasses import replace
from datetime import timedelta

import pytest
from sample import BYTES, HOOKS, PHASES, PRINTS, QUESTIONS, STEPS
from seats import press, quizzing, screen, spoken

from ddpquiz.curriculum import loading
from ddpquiz.curriculum.concept import Kind
from ddpquiz.errors import UserError
from ddpquiz.learning import quiz
from ddpquiz.learning.judge import expected, judge
from ddpquiz.terminal.kit import layout, style
from ddpquiz.terminal.sittings import question_view
from ddpquiz.terminal.sittings.answer_entry import Entry


def test_a_question_shows_its_options_and_the_keys_that_work_now(progress):
    assert screen(quizzing(progress)) == (
        """\
Question 1/5 · medium · ring

Four ranks all-reduce 1,200 bytes with a ring. How many bytes does each rank
send?
Choose one.

 1  1,200 bytes
 2  1,800 bytes
 3  2,400 bytes
 4  3,600 bytes

1-4 answer · h hint (2) · x solution · s skip · d demo · ? help · q quit"""
    )


def test_a_digit_answers_at_once_and_the_verdict_says_why_each_wrong_option_is_wrong(progress):
    seat = press(quizzing(progress), "h", "1")
    assert screen(seat) == (
        """\
Question 1/5 · medium · ring
✗ Wrong.

Four ranks all-reduce 1,200 bytes with a ring. How many bytes does each rank
send?
Choose one.

✗>1  1,200 bytes
     Each sum travels to be made and again to be shared.
✓ 2  1,800 bytes
  3  2,400 bytes
     That is the limit for very many ranks.
  4  3,600 bytes
     A root would send that much.

Steps
  1. A chunk is 300 bytes.
  2. 6 x 300 = 1,800 bytes.

Check
  Between S and 2 S.

enter next · p calculation · d demo · f flag · ? help · q quit"""
    )
    assert screen(press(seat, "1", "2", "h", "x")) == screen(seat)  # only what is offered goes on
    assert "Question 2/5" in screen(press(seat, "enter"))


def test_hints_come_in_stages_and_a_right_answer_then_earns_half(progress):
    seat = press(quizzing(progress), "h")
    assert "Hint 1  How large is a chunk?\n" in screen(seat)
    assert "Hint 2" not in screen(seat)
    assert "Hint 2  There are six steps.\n" in screen(press(seat, "h"))
    assert "h hint" not in screen(seat)
    assert "✓ Right, with a hint: half a point." in screen(press(seat, "2"))
    assert [row.credit for row in progress.entries("answer")] == [0.5]


def test_a_solution_that_was_asked_for_earns_nothing(progress):
    assert "This is the solution; the question earns nothing." in screen(press(quizzing(progress), "x"))
    assert [(row.credit, row.given) for row in progress.entries("answer")] == [(0.0, "")]


def test_a_demo_before_the_answer_counts_as_a_hint_and_after_it_is_free(progress):
    seat = press(quizzing(progress, BYTES, PHASES, BYTES), "d")
    assert seat.desk.actions.started == ["allreduce"]
    assert "Hint 1  How large is a chunk?\n\nHint 2  There are six steps.\n" in screen(seat)
    assert "h hint" not in screen(seat)
    assert "✓ Right, with a hint: half a point." in screen(press(seat, "2"))
    press(seat, "enter", "d")  # the next one has no hints
    press(seat, *expected(seat.quiz.posed).split(), "enter")
    assert "✓ Right, with a hint: half a point." in screen(seat)
    assert "✓ Right.\n" in screen(press(seat, "enter", "2", "d"))
    assert [row.credit for row in progress.entries("answer")] == [0.5, 0.5, 1.0]


def test_a_demo_that_did_not_run_costs_nothing(progress):
    seat = quizzing(progress, BYTES)
    seat.desk.actions.error = UserError("It cannot run here.")
    assert "It cannot run here.\n" in screen(press(seat, "d"))
    assert "✓ Right.\n" in screen(press(seat, "2"))


def test_the_help_says_what_a_demo_before_the_answer_costs(progress):
    shown = " ".join(screen(press(quizzing(progress, BYTES), "?")).split())
    assert "before the answer it counts as a hint, so a right answer earns half a point" in shown


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
    assert "right  1800 bytes\n" in screen(seat)


@pytest.mark.parametrize("question", [STEPS, HOOKS, PRINTS], ids=lambda question: question.kind)
def test_in_typed_answers_of_every_kind_letters_are_text_and_commands_come_after_escape(progress, question):
    seat = press(quizzing(progress, question, BYTES, BYTES), *"hsxu?q d")
    assert "> hsxu?q d_" in screen(seat)
    assert (seat.quiz.place, seat.quiz.hints, seat.left) == (0, 0, False)
    assert "> _" in screen(press(seat, "ctrl+u"))
    assert "x solution · s skip" in screen(press(seat, "escape"))
    assert "esc:" not in screen(seat)
    assert "command: _" in screen(press(quizzing(progress, question), "escape"))
    assert "> s_" in screen(press(seat, "escape", "s"))  # escape twice is none, and it counts for one key
    press(seat, "escape", "s")
    assert seat.quiz.place == 1
    press(seat, "u")
    assert seat.quiz.place == 0
    assert "This is the solution" in screen(press(seat, "escape", "x"))
    assert not press(seat, "q").left  # first it tells what it came to
    assert screen(seat).startswith("Done: 0 of 1 right, 2 not answered.\n")
    assert press(seat, "q").left
    assert press(quizzing(progress, question), "escape", "q").left


def test_undo_is_named_wherever_it_works(progress):
    seat = press(quizzing(progress, BYTES, PRINTS, BYTES), "s")
    assert screen(seat).endswith("enter answer · esc: h hint (1) · u undo · x solution · s skip · ? help · q quit")
    assert "h hint (2) · u undo" in screen(press(seat, "escape", "s"))


def test_an_answer_that_is_typed_stays_in_sight_when_the_question_is_tall(progress):
    console = style.console(io.StringIO(), width=40)
    console.print(press(quizzing(progress, PRINTS), *"[4.").foot(40))
    assert console.file.getvalue() == "> [4._ \nenter answer · esc: ? help · q quit\n"


def test_a_key_after_escape_that_is_no_command_is_typed_and_escape_leads_back(progress):
    seat = press(quizzing(progress, STEPS), "escape")
    assert "esc back · x solution" in screen(seat)
    assert "> 1_" in screen(press(seat, "1"))
    assert "> 1_" in screen(press(seat, "escape", "escape"))


def test_help_names_what_comes_after_escape(progress):
    shown = screen(press(quizzing(progress, PRINTS), "escape", "?"))
    assert "enter  submit what you chose or typed (← → home end move in it, ctrl+u clears\n       it)\n" in shown
    assert "esc x  show the solution; the question then earns nothing\n" in shown


def test_u_after_a_verdict_looks_back_and_changes_nothing(progress):
    seat = press(quizzing(progress, BYTES, PHASES, STEPS), "2", "enter", "h")
    before = screen(seat)
    shown = screen(press(seat, "u"))
    assert shown.startswith("Question 1/3 · looking back · medium · ring\n✓ Right.\n\nFour ranks all-reduce")
    assert shown.endswith("enter forward · p calculation · d demo · f flag · ? help · q quit")
    assert screen(press(seat, "1", "x", "s", "u")) == shown
    assert screen(press(seat, "enter")) == before
    assert [row.credit for row in progress.entries("answer")] == [1.0]
    assert [row.kind for row in progress.log()] == ["answer"]


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


@pytest.mark.parametrize("question", [STEPS, HOOKS, PRINTS], ids=lambda question: question.kind)
@pytest.mark.parametrize("letter", list("hxsuf?"))
def test_a_key_that_is_given_as_an_answer_is_not_judged(progress, question, letter):
    seat = press(quizzing(progress, question), letter, "enter")
    assert f"`{letter}` is a key: press esc, then {letter}.\n" in screen(seat)
    assert "> _" in screen(seat)
    assert progress.log() == []


def test_a_letter_that_is_the_answer_is_one(progress):
    assert "✓ Right" in screen(press(quizzing(progress, replace(PRINTS, answer="d")), "d", "enter"))


def test_a_flagged_question_says_so_above_and_can_be_unflagged_below(progress):
    seat = press(quizzing(progress, BYTES), "2", "f")
    assert screen(seat).startswith("Question 1/1 · medium · ring · flagged\n")
    assert "flagged as wrong or unclear · f removes the flag\nenter next" in screen(seat)
    assert "f unflag" in screen(seat)
    assert "f flag" in screen(press(seat, "f"))


def test_p_without_a_proof_says_so(progress):
    assert "This question has no proof.\nenter next" in screen(press(quizzing(progress, PHASES), "x", "p"))
    assert "The proof comes with the verdict.\n" in screen(press(quizzing(progress, BYTES), "p"))


def test_a_verdict_that_does_not_fit_folds_the_question_and_repeats_it_below(progress):
    long = replace(BYTES, ask=BYTES.ask + " Nobody fails." * 20)
    seat = press(quizzing(progress, long), "4")
    lines = screen(seat, height=24).split("\n")
    assert lines[:7] == [
        "Question 1/1 · medium · ring",
        "✗ Wrong.",
        "",
        "Four ranks all-reduce 1,200 bytes with a ring. How many bytes does each rank",
        "send? Nobody fails. Nobody fails. Nobody fails. Nobody fails. Nobody fails. …",
        "",
        "✗>4  3,600 bytes",
    ]
    assert lines[8].startswith("✓ 2  1,800 bytes")
    assert "\nThe question\n  Four ranks all-reduce 1,200 bytes" in "\n".join(lines)
    assert "The question" not in screen(seat, height=60)


def test_what_is_said_about_a_key_stands_above_the_keys(progress):
    console = style.console(io.StringIO(), width=80)
    console.print(press(quizzing(progress, PRINTS), "enter").foot(80))
    assert console.file.getvalue().startswith("Type what is printed.\n> _ \n")


def test_quitting_tells_what_it_came_to_and_how_to_go_on(progress):
    seat = press(quizzing(progress, BYTES, STEPS, about="ring"), "2", "enter", "escape", "q")
    assert screen(seat).startswith("Done: 1 of 1 right, 1 not answered.\n")
    assert "Next\n  ddpquiz test ring  go on: 1 question not answered yet\n" in screen(seat)
    assert screen(press(seat, "u")).startswith("Question 2/2")


def test_quitting_a_second_try_tells_the_command_that_asks_the_same_again(progress):
    seat = press(quizzing(progress, BYTES, STEPS, about="ring"), "1", "enter", *"1800", "enter", "enter", "r")
    assert "\n  ddpquiz test ring --wrong  go on: 1 question not answered yet\n" in screen(press(seat, "s"))


def test_who_answered_nothing_gets_no_summary(progress):
    seat = press(quizzing(progress, BYTES, STEPS), "s", "escape", "q")
    console = style.console(io.StringIO(), width=80)
    layout.show(console, seat.summary())
    assert (seat.left, console.file.getvalue().strip()) == (True, "")


def test_what_comes_next_keeps_the_concept_and_is_harder_only_when_all_was_right(progress):
    seat = press(quizzing(progress, BYTES, about="ring"), "2", "enter")
    assert "Next\n  ddpquiz test ring --level hard  harder ones\n" in screen(seat)
    seat = press(quizzing(progress, BYTES, PHASES), "2", "enter", "s")
    assert "harder" not in screen(seat)
    assert "harder" not in screen(press(quizzing(progress, PRINTS), *"4,6", "enter", "enter"))  # ddp has no hard ones


def test_what_is_no_answer_is_asked_for_again(progress):
    seat = press(quizzing(progress, STEPS), "-", "enter")
    assert "Answer with a number of bytes, such as 1800, 1.8e3 or 3/4." in screen(seat)
    assert progress.log() == []
    seat = press(seat, "backspace", *"2400", "enter")
    assert "yours  2400 bytes\nright  1800 bytes\n\nThat is the limit for very many ranks.\n" in screen(seat)


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


def test_what_was_said_about_an_answer_is_not_said_on_the_last_screen(progress):
    seat = press(quizzing(progress, BYTES, HOOKS), "1", "enter", "3", "enter")
    assert "Give each number" in screen(seat)
    shown = screen(press(seat, "escape", "q"))
    assert shown.startswith("Done: ")
    assert "Give each number" not in shown


def test_what_is_printed_is_typed_on_after_a_hint(progress):
    seat = press(quizzing(progress, PRINTS), *"[4.", "escape", "h")
    assert "Hint 1  SUM is the default." in screen(seat)
    seat = press(seat, *"0,", "space", *"6.0]", "enter")
    assert "✓ Right, with a hint: half a point." in screen(seat)


def test_code_is_shown_as_it_is(progress):
    assert "  x = torch.tensor([1.0, float(rank)])\n  dist.all_reduce(x)\n" in screen(quizzing(progress, PRINTS))


@pytest.mark.parametrize("kind", list(Kind))
def test_a_key_that_means_nothing_changes_nothing(kind):
    (question,) = (one for one in QUESTIONS if one.kind is kind)
    for key in ("up", "tab", "9", "ctrl+a", "é" if kind in (Kind.CHOICE, Kind.CHOICES) else "f5"):
        entry = Entry().key(key, question)
        assert (entry.text, entry.given) in (("", False), ("9", False))  # a digit belongs to a number or a text


def test_the_end_tells_the_score_by_concept_and_level_and_what_to_do_next(progress):
    seat = press(quizzing(progress, BYTES, STEPS, about="ring"), "1", "enter", *"1800", "enter", "enter")
    assert screen(seat) == (
        """\
Done: 1 of 2 right.

Verdict on ring
  unknown yet
  A verdict takes 3 answers or more.

By level
  medium  0 of 1 right
  hard    1 of 1 right

Next
  ddpquiz test ring --wrong  answer what was wrong once more
  ddpquiz learn ring         read about the concept that cost most
  ddpquiz study              1 card became due because of wrong answers

enter leave · r retry · u look back · d demo · ? help"""
    )


def test_the_first_verdict_says_what_its_percentages_are_and_later_ones_on_the_page_of_keys(progress):
    seat = press(quizzing(progress, BYTES, PHASES, STEPS), "1", "enter", "1", "enter", "enter", *"7", "enter", "enter")
    verdict = """\
Verdict on ring
  Based on 3 answers: probably 2–44 % (weak)
  To be strong takes right answers to more questions than there are; hard ones
  count most.

"""
    legend = """\
What the percentages mean
  The range is how much of a concept you probably know (80 % sure), judged by
  your last answer to each question; of several on one day, the first counts.
  Strong: all of the range is over 70 %. Weak: all of it is under 50 %. Fair:
  all of it is from 35 to 85 %. Otherwise there is no verdict yet.
"""
    assert verdict + legend in screen(seat)
    assert legend in screen(press(seat, "?"))
    later = press(quizzing(progress, BYTES, BYTES), "1", "enter", "1")
    assert "percentages mean" not in screen(press(later, "?"))
    press(later, "?", "enter", "2", "enter")
    assert "%" in screen(later)
    assert "percentages mean" not in screen(later)
    assert legend in screen(press(later, "?"))


def test_a_retry_asks_what_was_wrong_and_does_not_count_for_the_strength(progress):
    seat = press(quizzing(progress, BYTES, STEPS), "1", "enter", *"1800", "enter", "enter", "r")
    assert screen(seat).startswith("Question 1/1 · once more · medium · ring\n")
    seat = press(seat, "2", "enter")
    assert screen(seat).startswith("Done: 1 of 2 right.\nOnce more: 1 of 1 right. It does not count for the verdict.\n")
    assert "unknown yet" in screen(seat)
    assert "--wrong" not in screen(seat)
    assert [row.retry for row in progress.entries("answer")] == [False, False, True]


def test_a_wrong_answer_makes_a_card_due_and_looking_back_changes_nothing(progress):
    seat = press(quizzing(progress), "1")
    assert list(progress.memories()) == ["ring/two"]
    press(seat, "u", "enter", "u")
    assert list(progress.memories()) == ["ring/two"]
    assert len(progress.entries("answer")) == 1


def test_on_the_last_screen_the_last_verdict_can_be_looked_at_again(progress):
    seat = press(quizzing(progress, BYTES), "1", "enter")
    assert screen(press(seat, "u")).startswith("Question 1/1 · looking back")
    assert screen(press(seat, "enter")).startswith("Done: 0 of 1 right.")
    assert len(progress.entries("answer")) == 1


def test_the_demo_and_the_proof_lead_back_to_the_question(progress):
    seat = press(quizzing(progress), "p", "d")
    assert seat.desk.actions.started == ["allreduce"]  # the proof would tell the answer
    before = screen(press(seat, "2"))
    assert screen(press(seat, "p")) == before
    assert seat.desk.actions.started == ["allreduce", "ring/bytes"]


def test_lines_of_a_pipe_are_answers_and_an_empty_one_skips(progress):
    seat = quizzing(progress, BYTES, PHASES, PRINTS, final=True)
    text = spoken(seat, "h", "2", "", ":h", "[1.0, 1.5]")
    assert "How large is a chunk?\n✓ Right, with a hint: half a point.\n" in text
    assert "SUM is the default.\n✗ Wrong.\nyours  [1.0, 1.5]\nright  [4.0, 6.0]\n\nThat is the mean.\n" in text
    assert [(answer.given, answer.credit) for answer in seat.quiz.answers] == [("2", 0.5), ("[1.0, 1.5]", 0.0)]
    assert seat.over


def test_a_pipe_that_ends_leaves_the_rest_unanswered(progress):
    seat = quizzing(progress, BYTES, PHASES, final=True)
    spoken(seat, "2")
    assert (len(seat.quiz.answers), seat.over) == (1, False)


def test_a_line_that_is_no_answer_counts_as_none_when_nobody_is_there(progress, capsys):
    seat = quizzing(progress, BYTES, HOOKS, STEPS, final=True)
    text = spoken(seat, "bytes", "2", "foo")
    assert seat.over
    assert "Wrong" not in text
    assert capsys.readouterr().err == (
        """\
ring/bytes: `bytes` cannot be read as an answer. Answer with one number from 1 to 4.
ddp/hooks: `2` cannot be read as an answer. Give each number from 1 to 3 once, in order, such as 2 1 3.
ring/steps: `foo` cannot be read as an answer. Answer with a number of bytes, such as 1800, 1.8e3 or 3/4.
"""
    )
    assert "Answer with one number from 1 to 4.\n" in spoken(quizzing(progress, BYTES), "bytes")
    assert progress.log() == []


def test_where_lines_are_read_the_keys_are_named_as_they_are_typed(progress):
    console = style.console(io.StringIO(), width=80)
    quizzing(progress, PRINTS).read(console, [":h", ":q"], asked=True)
    assert (
        "enter answer · :h hint (1) · :x solution · :s skip · :f flag · :? help · :q quit\n" in console.file.getvalue()
    )


@pytest.mark.parametrize("seed", range(4))
def test_every_kind_can_be_answered_right_with_keys(progress, seed):
    for question in QUESTIONS:
        seat = quizzing(progress, question, seed=seed)
        answer = expected(seat.quiz.posed).removesuffix(" bytes")
        keys = (
            answer.split()
            if question.kind in (Kind.CHOICES, Kind.ORDER)
            else ["space" if c == " " else c for c in answer]
        )
        press(seat, *keys, *([] if question.kind is Kind.CHOICE else ["enter"]))
        assert seat.quiz.answer.credit == 1


def test_questions_without_code_load_no_highlighter():
    import subprocess

    script = "import ddpquiz.terminal.sittings.quiz, ddpquiz.terminal.sittings.study, sys; sys.exit(any('pygments' in m or 'markdown' in m or m == 'torch' for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_what_was_chosen_when_the_quiz_was_stopped_is_not_chosen_in_a_retry(progress):
    seat = press(quizzing(progress, PHASES, STEPS), "1", "enter", "enter", *"18", "escape", "q")
    assert seat.quiz.posed is None
    assert "[x]" not in screen(press(seat, "r"))
    assert seat.entry.text == ""


def test_where_lines_are_read_the_time_of_a_proof_is_no_time_spent_on_the_question(progress):
    seat = quizzing(progress, BYTES, PRINTS)

    def prove(_posed):
        seat.desk.clock.at += timedelta(hours=1)

    seat.desk.actions.prove = prove
    spoken(seat, "1", ":p", "[4.0, 6.0]")
    assert [row.took < 60_000 for row in progress.entries("answer")] == [True, True]


def test_dice_of_a_retry_are_those_of_the_quiz(progress):
    one, two = (quizzing(progress, STEPS, seed=5) for _ in range(2))
    assert one.quiz.asked == two.quiz.asked
    assert isinstance(one._dice, random.Random)


def test_every_shipped_question_can_be_drawn_answered_and_is_wrong_for_its_traps(progress):
    for question in loading.load().questions():
        for seed in range(2):
            seat = quizzing(progress, question, seed=seed)
            posed = seat.quiz.posed
            assert judge(posed, expected(posed)).right, question.key
            for trap in posed.question.traps:
                verdict = judge(posed, trap.answer)
                assert (verdict.right, verdict.unclear) == (False, ""), (question.key, trap.answer)
                assert verdict.whys, (question.key, trap.answer)
            for width in (40, 80):
                assert "Question 1/1" in screen(seat, width)
                judged = quiz.step(seat.quiz, quiz.Given(expected(posed)), seat.desk.clock()).answer
                console = style.console(io.StringIO(), width=width)
                console.print(*question_view.judged(judged))
                assert max(map(len, console.file.getvalue().split("\n"))) <= width, question.key
