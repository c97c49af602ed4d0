"""The judge: which answers are right, wrong, or asked for again."""

import random
import re
from dataclasses import replace

import pytest
from sample import BYTES, HOOKS, PHASES, PRINTS, QUESTIONS, STEPS

from ddpquiz.curriculum.concept import Option
from ddpquiz.curriculum.posed_question import Posed, evaluate_drawn, expected, pose
from ddpquiz.learning.judge import answered, chance, instruction, judge

STRAIGHT = {
    question.key: replace(posed, shown=tuple(range(len(posed.shown))))
    for question in QUESTIONS
    for posed in [pose(question, random.Random(1))]
}


def number(answer="1800", unit="bytes", tolerance=0.0, traps=()):
    question = replace(STEPS, answer=answer, unit=unit, tolerance=tolerance, traps=traps, ask="?", variables=())
    return Posed(
        question, {}, (), tuple(evaluate_drawn(text, {}) for text in (answer, *(trap.answer for trap in traps)))
    )


@pytest.mark.parametrize(
    ("given", "right", "said"),
    [
        ("1", True, ""),
        ("2", False, "Each sum travels to be made and again to be shared."),
        (" 4 ", False, "That is the limit for very many ranks."),
        ("1,800 bytes", True, ""),
        ("5", None, "Answer with one number from 1 to 4."),
        ("12", None, "Answer with one number from 1 to 4."),
        ("", None, "Answer with one number from 1 to 4."),
        ("x", None, "Answer with one number from 1 to 4."),
    ],
)
def test_one_option_is_chosen_by_its_place_or_its_text(given, right, said):
    verdict = judge(STRAIGHT["ring/bytes"], given)
    assert (verdict.right, " ".join(verdict.whys), verdict.unclear) == (
        (right, said, "") if right is not None else (False, "", said)
    )


def test_places_are_those_on_the_screen():
    posed = Posed(BYTES, {}, (2, 3, 0, 1))
    assert judge(posed, "3").right
    assert judge(posed, "1").whys == ("A root would send that much.",)
    assert expected(posed) == "3"


def test_a_digit_is_a_place_also_where_options_are_digits():
    numbers = (Option("0"), Option("1", why="one"), Option("2"), Option("3", right=True))
    posed = Posed(replace(BYTES, options=numbers), {}, (0, 1, 2, 3))
    assert judge(posed, "2").whys == ("one",)
    assert judge(posed, "4").right
    assert not judge(posed, "3").right


@pytest.mark.parametrize(
    ("given", "right", "said"),
    [
        ("1 2", True, ()),
        ("21", True, ()),
        ("2, 1", True, ()),
        ("1", False, ("2 is right, too: all-gather.",)),
        ("1 2 4", False, ("A barrier moves no data.",)),
        ("1 3", False, ("A broadcast copies from one rank.", "2 is right, too: all-gather.")),
    ],
)
def test_several_options_are_all_needed_and_no_other(given, right, said):
    verdict = judge(STRAIGHT["ring/phases"], given)
    assert (verdict.right, verdict.whys) == (right, said)


@pytest.mark.parametrize("given", ["", "1 1", "7", "one"])
def test_what_names_no_options_is_asked_again(given):
    assert (
        judge(STRAIGHT["ring/phases"], given).unclear
        == "Answer with the numbers of all right options, from 1 to 4, such as 1 3."
    )


@pytest.mark.parametrize(
    "given",
    [
        "1800",
        "1,800",
        "1.8e3",
        "1800 bytes",
        "1,800 Bytes",
        "1800 byte",
        " 1800.0 ",
        "+1800",
        "3/4*2400",
        "1_800",
        "2^3*225",
        "2**3*225 bytes",
        "sqrt(3240000)",
        "18 * sqrt(10^4) bytes",
    ],
)
def test_a_number_may_be_written_in_any_usual_way(given):
    assert judge(number(), given).right


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        ("bytes", "Type the number of bytes."),
        ("GB/s", "Type a number, in GB/s."),
        ("s", "Type a number, in seconds."),
        ("million", "Type a number, in millions."),
        ("times", "Type how many times."),
        ("", "Type a number."),
    ],
)
def test_the_instruction_names_the_unit_in_a_sentence(unit, said):
    assert instruction(replace(STEPS, unit=unit, tolerance=0.0)) == said


def test_a_question_that_asks_for_decimals_is_not_told_another_precision():
    assert (
        instruction(replace(STEPS, unit="GB", tolerance=0.01, ask="Give one decimal place.")) == "Type a number, in GB."
    )


@pytest.mark.parametrize("tolerance", [0.001, 0.002, 0.004, 0.005, 0.01, 0.02, 0.03, 0.1])
def test_the_instruction_says_how_many_digits_are_enough_and_so_many_are(tolerance):
    said = instruction(replace(STEPS, unit="GB/s", tolerance=tolerance))
    digits = re.fullmatch(r"Type a number, in GB/s; (\d) significant digits are enough\.", said)
    assert digits
    for right in [*range(1001, 10000, 37), 1005, 1049, 1050, 10049]:
        assert judge(number(f"{right} / 1000", "GB/s", tolerance), f"{right / 1000:.{digits[1]}g}").right, right


@pytest.mark.parametrize(
    ("given", "unclear"),
    [
        ("", "Answer with a number (in bytes), such as 1800, 1.8e3 or 3/4."),
        ("many", "Answer with a number (in bytes), such as 1800, 1.8e3 or 3/4."),
        ("1,8", "Write a decimal point, as in 1.8; a comma groups thousands, as in 1,800."),
        ("0,500", "Write a decimal point, as in 1.8; a comma groups thousands, as in 1,800."),
        ("2**9**9", "Answer with a number (in bytes), such as 1800, 1.8e3 or 3/4."),
        ("1/0", "Answer with a number (in bytes), such as 1800, 1.8e3 or 3/4."),
        ("1.8", "1.8 bytes? Answer in bytes."),
        ("1800 kg", "Answer in bytes."),
        ("14400 bits", "Answer in bytes."),
    ],
)
def test_what_is_not_a_number_is_asked_again(given, unclear):
    verdict = judge(number(), given)
    assert (verdict.right, verdict.unclear) == (False, unclear)


@pytest.mark.parametrize(
    ("answer", "tolerance", "given", "right"),
    [
        ("1800", 0.0, "1800.001", False),
        ("1800", 0.01, "1810", True),
        ("1800", 0.01, "1820", False),
        ("0.333333", 0.0, "1/3", True),
        ("0.333333", 0.0, "0.334", False),
        ("0", 0.0, "0", True),
        ("0", 0.0, "1", False),
        ("-2", 0.0, "\N{MINUS SIGN}2", True),
        ("1e+18", 0.0, "10**18", True),
    ],
)
def test_a_number_is_exact_unless_the_question_has_a_tolerance(answer, tolerance, given, right):
    assert judge(number(answer, tolerance=tolerance), given).right is right


@pytest.mark.parametrize(
    ("answer", "unit", "given"),
    [
        ("36", "million parameters", ["36", "36M", "36 million", "36e6 parameters", "36,000,000 parameters", "0.036B"]),
        ("36", "million", ["36 million", "36 million parameters"]),
        ("302.4", "µs", ["302.4us", "302.4 microseconds", "302.4 usec", "302.4 µs", "0.3024 ms", "3.024e-4 s"]),
        ("12.5", "times", ["12.5x", "12.5 ×", "12.5 times", "25/2", "12.5 x faster", "5 x 2.5"]),  # noqa: RUF001
        ("2", "times the old batch", ["2x", "2 times", "2 times the old batch"]),
        ("43", "GB", ["43GB", "43 gb", "43000 MB", "0.043 TB", "43 gigabytes"]),
        ("75", "%", ["75%", "75 percent", "75 per cent"]),
        ("75", "percent", ["75 %", "75 pct"]),
        ("20", "steps", ["20 step", "20 Steps"]),
        ("8", "micro-batches", ["8 micro-batch", "8 micro batches"]),
        ("46.9", "GB/s", ["46.9 GBps", "46.9 GB per second", "46900 MB/s"]),
        ("1.5", "hours", ["1.5 h", "90 min", "5400 s"]),
        ("1800", "bytes", ["1.8 kB", "1800 B"]),
        ("3", "TFLOP/s", ["3000 GFLOP/s", "3e12 FLOP/s"]),
    ],
)
def test_a_unit_may_be_written_in_any_usual_way_and_is_converted(answer, unit, given):
    for one in given:
        assert judge(number(answer, unit), one).right, one
        assert not judge(number("77", unit), one).right, one


@pytest.mark.parametrize(
    ("answer", "unit", "given"),
    [
        ("43", "GB", "43 Gb"),
        ("46.9", "GB/s", "46.9 GB"),
        ("20", "steps", "20 s"),
        ("36", "million parameters", "36 GB"),
        ("12.5", "times", "1250 %"),
    ],
)
def test_another_unit_is_asked_again_and_says_nothing_of_right_or_wrong(answer, unit, given):
    for key in (answer, "77"):
        assert judge(number(key, unit), given).unclear == f"Answer in {unit}."


def test_a_unit_that_is_not_wanted_is_asked_again():
    assert judge(number("3", ""), "3 kg").unclear == "Answer without a unit."
    assert judge(number("3000", ""), "3k").right


@pytest.mark.parametrize(
    ("answer", "unit", "given", "said"),
    [
        ("36", "million parameters", "36,000,000", "36,000,000 million parameters? Answer in million parameters."),
        ("302.4", "µs", "0.3024", "0.3024 µs? Answer in µs."),
        ("43", "GB", "43000", "43,000 GB? Answer in GB."),
        ("75", "%", "0.75", "0.75%? Answer in %."),
        ("1.5", "hours", "5400", "5,400 hours? Answer in hours."),
        ("20", "steps", "20000", ""),
        ("12.5", "times", "0.0125", ""),
        ("43", "GB", "44000", ""),
    ],
)
def test_a_bare_number_in_another_form_of_the_unit_is_asked_again(answer, unit, given, said):
    verdict = judge(number(answer, unit), given)
    assert (verdict.right, verdict.unclear) == (False, said)


def test_a_trap_that_is_off_by_a_thousand_is_wrong():
    traps = (replace(STEPS.traps[0], answer="1800000"),)
    assert judge(number(unit="kB", traps=traps), "1800000").whys == (STEPS.traps[0].why,)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("12.5", "12.5 times"),
        ("12.5x", "12.5x"),
        ("25/2", "25/2 times = 12.5 times"),
        ("25/2 x", "25/2 x = 12.5 times"),
        ("many", "many"),
    ],
)
def test_a_number_is_shown_with_its_unit_and_its_value(given, said):
    assert answered(number("12.5", "times"), given) == said
    assert answered(number("43", "GB"), "43000 MB") == "43,000 MB = 43 GB"
    assert answered(STRAIGHT["ring/bytes"], "2") == "2"


def test_a_trap_says_why_it_is_wrong():
    posed = pose(STEPS, random.Random(1))
    assert judge(posed, "1800").right
    assert judge(posed, "2400").whys == ("That is the limit for very many ranks.",)
    assert judge(posed, "7").whys == ()
    assert expected(posed) == "1,800 bytes"


@pytest.mark.parametrize(
    ("shown", "given", "right", "said"),
    [
        ((0, 1, 2), "1 2 3", True, ()),
        ((2, 0, 1), "231", True, ()),
        ((2, 0, 1), "2,3,1", True, ()),
        ((0, 1, 2), "132", False, ("Second comes: its bucket is full",)),
    ],
)
def test_lines_are_ordered_by_their_places(shown, given, right, said):
    verdict = judge(Posed(HOOKS, {}, shown), given)
    assert (verdict.right, verdict.whys) == (right, said)


def test_an_order_is_shown_as_it_is_asked_for():
    given = ("231", "2,3, 1", "2 3")
    assert [answered(STRAIGHT["ddp/hooks"], each) for each in given] == ["2 3 1", "2 3 1", "2 3"]


def test_the_example_of_an_order_has_as_many_numbers_as_there_are_lines():
    four = replace(HOOKS, lines=(*HOOKS.lines, HOOKS.lines[0]))
    assert judge(Posed(four, {}, (0, 1, 2, 3)), "1").unclear.endswith("in order, such as 2 1 3 4.")
    assert instruction(four) == "Type the numbers of the lines in the right order, such as 2 1 3 4."


@pytest.mark.parametrize("given", ["12", "1 1 2", "1234", "first"])
def test_an_order_names_each_line_once(given):
    said = "Give each number from 1 to 3 once, in order, such as 2 1 3."
    assert judge(STRAIGHT["ddp/hooks"], given).unclear == said


@pytest.mark.parametrize(
    ("given", "right"),
    [
        ("[4.0, 6.0]", True),
        ("[4.0,6.0]", True),
        ("[ 4.0,  6.0 ]", True),
        ('"[4.0, 6.0]"', True),
        ("`[4.0, 6.0]`", True),
        ("[4.0, 6.0]\\n", True),
        ("[6.0, 4.0]", False),
        ("4.06.0", False),
        ("4 6", True),
        ("(4, 6)", True),
        ("tensor([4., 6.])", True),
        ("6 4", False),
        ("True 4 6", False),
    ],
)
def test_an_output_is_its_numbers_and_words_and_their_form_does_not_count(given, right):
    verdict = judge(STRAIGHT["ddp/prints"], given)
    assert (verdict.right, verdict.unclear) == (right, "")


def test_words_of_an_output_count():
    types = Posed(replace(PRINTS, answer="[[4.0, 0.0]] torch.float32"), {}, ())
    assert judge(types, "4 0 float32").right
    assert not judge(types, "[[4.0, 0.0]] torch.float16").right
    assert not judge(types, "4 0").right
    dealt = Posed(replace(PRINTS, answer="8 samples in 2 steps of 4"), {}, ())
    assert judge(dealt, "8 samples, 2 steps of the 4").right
    assert not judge(dealt, "8 samples in 2 of 4").right


def test_a_trap_of_an_output_is_wrong_and_nothing_is_asked_again():
    posed = STRAIGHT["ddp/prints"]
    assert judge(posed, "[1.0,1.5]").whys == ("That is the mean.",)
    assert judge(posed, " ").unclear == "Type what is printed."


def test_a_line_that_is_missing_is_asked_for_and_not_judged():
    lines = Posed(replace(PRINTS, answer="0\n100"), {}, ())
    assert judge(lines, "0").unclear == "This prints 2 lines; type all of them."
    assert (judge(lines, "0 100").right, judge(lines, "0\\n100").right) == (True, True)
    assert (judge(lines, "0 99").right, judge(lines, "0 99").unclear) == (False, "")


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.key)
@pytest.mark.parametrize("seed", range(5))
def test_the_expected_answer_is_right_however_it_is_shuffled(question, seed):
    posed = pose(question, random.Random(seed))
    assert judge(posed, expected(posed)).right


def test_a_blind_guess_has_the_chance_of_its_kind():
    assert [chance(q) for q in (BYTES, PHASES, HOOKS, STEPS, PRINTS)] == [1 / 4, 1 / 14, 1 / 6, 0.0, 0.0]


@pytest.mark.parametrize("text", ["a", "a.", "_", "1e", "sqrt", "log2(", "[ ", "1,", "(", "x y "])
def test_a_long_answer_is_judged_in_time_that_grows_with_its_length(text, scale):
    """What grows with the square would go on for minutes with 200 kB, and for hours with a megabyte."""
    for question in (PRINTS, STEPS):
        assert not judge(Posed(question, {}, ()), text * (scale(200_000, 1_000_000) // len(text))).right


def test_a_wrong_output_gets_its_reason_however_its_numbers_are_written():
    posed = Posed(PRINTS, {}, ())
    for given in ("[1.0, 1.5]", "1 1.5", "[1, 1.50]"):
        assert judge(posed, given).whys == ("That is the mean.",)
    assert judge(posed, "1 2").whys == ()
