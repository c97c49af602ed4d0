"""What a guesser scores, and the marks that give options away."""

import json
from dataclasses import replace

import pytest
import typer
from typer.testing import CliRunner

from ddpquiz.cli.check import check
from ddpquiz.curriculum import quality as module
from ddpquiz.curriculum.concept import Card, Concept, Kind, LessonStep, Level, Option, Question
from ddpquiz.curriculum.loading import load
from ddpquiz.curriculum.quality import PICKERS, expectation, measure_quality, reading_grade, together

RIGHT = 0
MOST_ALIKE = 0.55  # of the `choices` questions: those with the same number of right options


def question(*texts, ask="What does it hold?", name="q"):
    options = tuple(Option(text, right=at == RIGHT, why="" if at == RIGHT else "no") for at, text in enumerate(texts))
    return Question("c", name, Level.EASY, Kind.CHOICE, ask, options=options)


def concept(*questions, cards=(), lesson="Short."):
    return Concept(
        "c", "t", "C", "Idea.", "Why.", (LessonStep(lesson),), (), (), (), (), (), tuple(cards), questions, ()
    )


@pytest.mark.parametrize(
    ("rule", "texts", "ask", "chance"),
    [
        ("the longest option", ("a much longer option", "short", "brief", "small"), "", 1.0),
        ("the longest option", ("short", "a much longer option", "brief", "small"), "", 0.0),
        ("the longest option", ("alike", "other", "third", "x"), "", 1 / 3),
        ("the shortest option", ("x", "other", "third", "again"), "", 1.0),
        ("the option most like the stem", ("its gradient", "its weight", "a loss", "a rank"), "Which gradients?", 1.0),
        ("the option most like the stem", ("one", "two", "three", "four"), "Which gradients?", 0.25),
        ("the only hedged option", ("it usually waits", "it stops", "it dies", "it goes on"), "", 1.0),
        ("the only hedged option", ("it usually waits", "it often stops", "it dies", "it goes on"), "", 0.25),
        ("the only absolute option", ("it waits", "it always stops", "it dies", "it goes on"), "", 0.0),
    ],
)
def test_a_picker_is_right_as_often_as_its_rule_finds_the_key(rule, texts, ask, chance):
    asked = question(*texts, ask=ask)
    assert expectation(asked, PICKERS[rule](asked)) == pytest.approx(chance)


def test_a_bank_that_gives_itself_away_fails():
    bank = [question("the right one is long", "no", "so", "do", name=f"q{at}") for at in range(3)]
    found = measure_quality([concept(*bank)])
    assert (
        "picking the longest option answers 100% of 3 choice questions correctly; at most 32% is allowed" in found.fails
    )


@pytest.mark.parametrize(
    ("asked", "remark"),
    [
        (question("x" * 40, "yyyyyy", "zzzzzz", "wwwwww"), "c/q: its longest option has 40 characters, its shortest 6"),
        (question("It ends.", "so", "do", "no"), "c/q: 1 of 4 options end with a full stop"),
        (question("The sum", "the mean", "the last", "the first"), "c/q: 1 of 4 options start with a capital"),
        (question("4 GB", "5", "6 GB", "7 GB"), "c/q: some options have a unit and some are bare numbers"),
    ],
)
def test_options_of_unequal_form_are_named(asked, remark):
    assert remark in measure_quality([concept(asked)]).remarks


def test_two_cards_that_say_the_same_are_named_and_a_card_beside_its_question_is_not():
    text = "Which tensor does every rank hold after an all-reduce with SUM?"
    cards = [Card("c", name, Level.EASY, text, "The elementwise sum.", "s") for name in ("a", "b")]
    same = question("the sum", "the mean", "the max", "a rank", ask=text)
    remarks = measure_quality([concept(same, cards=cards)]).remarks
    assert "c/a and c/b say nearly the same" in remarks
    assert not any("c/q" in remark for remark in remarks)


def test_hard_prose_has_a_higher_grade_and_drawings_do_not_count():
    easy = "Each rank has a part. It sends it on."
    hard = (
        "Asynchronous communication necessitates considerably sophisticated synchronization infrastructure throughout."
    )
    assert reading_grade(easy) < 5
    assert reading_grade(hard) > 12
    assert reading_grade(f"{easy}\n\n    {hard}\n\n```\n{hard}\n```") == reading_grade(easy)
    assert any("school grade" in remark for remark in measure_quality([concept(lesson=hard)]).remarks)


def test_the_shipped_bank_does_not_give_itself_away():
    assert measure_quality(load().concepts).fails == ()


def test_the_command_prints_the_scores_and_fails_with_the_bank(monkeypatch):
    app = typer.Typer()
    app.command()(check)
    few = [concept for concept in load().concepts if concept.id in ("all-reduce-ring", "ddp-mechanics")]
    monkeypatch.setattr(
        module, "measure_quality", lambda _: measure_quality(few)
    )  # the whole content takes ten seconds
    monkeypatch.setattr(module, "MOST", 1.0)
    result = CliRunner().invoke(app, ["--quality"])
    assert result.exit_code == 0
    assert "the longest option" in result.stdout
    monkeypatch.setattr(module, "MOST", 0.1)
    result = CliRunner().invoke(app, ["--quality", "--json"])
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert {each["rule"] for each in found["quality"]["scores"]} == set(PICKERS)
    assert found["problems"] == found["quality"]["fails"] != []


def test_a_guesser_learns_cues_from_other_concepts_and_finds_nothing_where_there_are_none():
    telling = [
        replace(question("it waits forever", f"it adds {at}", f"it sends {at}", f"it keeps {at}"), concept=f"c{at % 6}")
        for at in range(24)
    ]
    assert together(telling) == 1.0
    even = [
        replace(question(*(f"{1 + (at + by) % 4} bytes" for by in range(4))), concept=f"c{at // 4}") for at in range(24)
    ]
    assert together(even) == 0.25


def test_a_guesser_gets_no_cue_from_the_shipped_content():
    """Each cue alone, where its rule applies, and all of them learned together."""
    found = measure_quality(load().concepts)
    assert [score.rule for score in found.scores] == [*PICKERS]
    assert [(score.rule, score.where_it_applies) for score in found.scores if not score.meets_goal] == []
    assert found.together <= module.GOAL_TOGETHER
    assert max(found.rights.values()) <= MOST_ALIKE * sum(found.rights.values())
