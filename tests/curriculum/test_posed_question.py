"""Posing a question: values drawn, texts filled in, options shuffled."""

import random
from dataclasses import replace

import pytest
from inline_snapshot import snapshot

from ddpquiz.curriculum.concept import DemoProof, Kind, Level, Line, Option, Question, Trap, Variable
from ddpquiz.curriculum.posed_question import ON_MACHINE, fill, on_machine, pose, pose_with

NUMBER = Question(
    concept="ring",
    id="bytes",
    level=Level.HARD,
    kind=Kind.NUMBER,
    ask="{n} ranks all-reduce {s} bytes. {{n}} is a set.",
    code="s = {s}  # {=s / n} a chunk",
    variables=(Variable("n", ("3", "4")), Variable("s", ("1200",))),
    answer="2 * (n - 1) / n * s",
    traps=(Trap("2 * s", "That is the limit, {=2 * s}."), Trap("s / 7", "No.")),
    hints=("{=s / n} bytes",),
    steps=("{=n - 1} steps",),
    check="less than {=2 * s}",
    proof=DemoProof("n", "ring", "bytes sent", ("--size", "{s}", "--half={=s / 2}")),
)


def question(kind, **fields):
    return Question("ring", "q", Level.EASY, kind, "What?", **fields)


def options(*texts):
    return question(Kind.CHOICE, options=tuple(Option(text, right=not place) for place, text in enumerate(texts)))


def drawn(n):
    return next(posed for posed in (pose(NUMBER, random.Random(seed)) for seed in range(50)) if posed.values["n"] == n)


def test_every_text_of_a_number_question_is_filled_in():
    posed = drawn("3")
    asked = posed.question
    assert posed.values == {"n": "3", "s": "1200"}
    assert asked.ask == snapshot("3 ranks all-reduce 1,200 bytes. {n} is a set.")
    assert asked.code == "s = 1200  # 400 a chunk"
    assert asked.answer == "1600"
    assert asked.traps == (Trap("2400", "That is the limit, 2,400."), Trap("171.429", "No."))
    assert (asked.hints, asked.steps, asked.check) == (("400 bytes",), ("2 steps",), "less than 2,400")
    assert asked.proof == DemoProof("3", "ring", "bytes sent", ("--size", "1200", "--half=600"))
    assert posed.shown == ()


def test_the_values_of_the_answer_and_the_traps_are_not_rounded_as_their_texts_are():
    assert drawn("3").numbers == (1600, 2400, 1200 / 7)
    exact = pose_with(replace(NUMBER, answer="s * 0.1 * 3 / n"), {"n": "1", "s": "1"})  # 0.30000000000000004
    assert (exact.question.answer, exact.numbers[0]) == ("0.3", 0.1 * 3)
    whole = pose_with(replace(NUMBER, answer="(n + 0.1 + 0.2) * 10 - 10 * n"), {"n": "1", "s": "1"}).numbers[0]
    assert (whole, type(whole)) == (3, int)  # so that the judge asks for exactly this number


def test_the_draw_depends_on_the_dice_alone():
    assert pose(NUMBER, random.Random(5)) == pose(NUMBER, random.Random(5))
    assert {pose(NUMBER, random.Random(seed)).values["n"] for seed in range(20)} == {"3", "4"}


def test_other_kinds_keep_their_braces():
    asked = question(Kind.CHOICE, code="d = {n: 1}", options=options("a", "b").options)
    assert pose(asked, random.Random(0)).question is asked


def test_options_are_shuffled_into_every_order():
    seen = {pose(options("a", "b", "c", "d"), random.Random(seed)).shown for seed in range(500)}
    assert len(seen) == 24


@pytest.mark.parametrize(
    ("texts", "order"),
    [
        (("1,800 bytes", "1,200 bytes", "2,400 bytes", "3,600 bytes"), (1, 0, 2, 3)),
        (("10", "9", "-1", "1e3"), (2, 1, 0, 3)),
        (("0.5 s", "0.25 s", "100 s", "3 s"), (1, 0, 3, 2)),
    ],
)
def test_options_that_begin_with_numbers_are_sorted(texts, order):
    assert {pose(options(*texts), random.Random(seed)).shown for seed in range(20)} == {order}


def test_one_option_without_a_number_is_enough_to_shuffle():
    assert len({pose(options("1", "2", "3", "none"), random.Random(seed)).shown for seed in range(50)}) > 10


@pytest.mark.parametrize("count", [2, 3, 6])
def test_lines_are_never_shown_in_order_already(count):
    asked = question(Kind.ORDER, lines=tuple(Line(str(place)) for place in range(count)))
    for seed in range(100):
        shown = pose(asked, random.Random(seed)).shown
        assert sorted(shown) == list(range(count))
        assert shown != tuple(range(count))


def test_lines_that_begin_with_numbers_are_shuffled_all_the_same():
    asked = question(Kind.ORDER, lines=(Line("1 cut"), Line("2 add"), Line("3 send")))
    assert len({pose(asked, random.Random(seed)).shown for seed in range(50)}) == 5


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("plain", "plain"),
        ("{n} and { n }", "4 and 4"),
        ("{=n * 2} {= n / 3 }", "8 1.33333"),
        ("{{n}} {{{n}}}", "{n} {4}"),
        ("{=b}", "175000000000"),
    ],
)
def test_braces_are_filled(text, filled):
    assert fill(text, {"n": "4", "b": "175e9"}) == filled


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{m}", "`m` is unknown; the names are n"),
        ("a { b", "a single `{`; write `{{` for a plain brace"),
        ("a } b", "a single `}`; write `}}` for a plain brace"),
        ("{=m}", "`m` is unknown; the names are n"),
        ("{=n / 0}", "`n / 0` divides by zero"),
        ("{}", "`` is unknown; the names are n"),
    ],
)
def test_what_cannot_be_filled_is_refused_with_a_sentence(text, sentence):
    with pytest.raises(ValueError, match=r".") as refusal:
        fill(text, {"n": "4"})
    assert str(refusal.value) == sentence


def test_a_question_without_a_proof_is_posed_too():
    assert pose(replace(NUMBER, proof=None), random.Random(0)).question.proof is None


LINE = Question(
    "costs", "line", Level.EASY, Kind.NUMBER, "{n} processes: {a} µs, and {c} µs for each MB. How long do 2 MB take?",
    variables=(
        Variable("n", ("4",), "ranks"), Variable("a", ("80", "150"), "all_reduce.alpha"),
        Variable("c", ("400",), "all_reduce.beta"),
    ),
    answer="a + 2 * c", tolerance=0.01, traps=(Trap("2 * c", "The latency is missing."),),
)  # fmt: skip
FIGURES = {"ranks": "2", "all_reduce.alpha": "300", "all_reduce.beta": "580"}


def test_a_question_about_a_machine_has_the_figures_of_the_learners_own():
    posed = pose(on_machine(LINE, FIGURES), random.Random(1))
    assert posed.question.ask == f"2 processes: 300 µs, and 580 µs for each MB. How long do 2 MB take? {ON_MACHINE}"
    assert posed.question.answer == "1460"


@pytest.mark.parametrize(
    "figures",
    [{}, {"ranks": "2"}, FIGURES | {"all_reduce.alpha": "1"}],
    ids=["no bench", "another operation", "a trap would be right"],
)
def test_it_keeps_the_listed_values_where_figures_are_missing_or_decide_nothing(figures):
    assert on_machine(LINE, figures) is LINE


def test_numbers_have_thousands_in_prose_and_none_in_code():
    question = replace(
        NUMBER, ask="`--size {s}` of {s} is {=2 * s}", code="x = {s}", hints=("{{{s}}}",), steps=("`{=2 * s}`",)
    )
    asked = pose_with(question, {"n": "4", "s": "1200"}).question
    assert (asked.ask, asked.code) == ("`--size 1200` of 1,200 is 2,400", "x = 1200")
    assert (asked.hints, asked.steps) == (("{1,200}",), ("`2400`",))
