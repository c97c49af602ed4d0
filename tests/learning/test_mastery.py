"""How strong a concept is."""

import re
from dataclasses import dataclass
from datetime import date, timedelta

import pytest
from inline_snapshot import snapshot

from ddpquiz.learning.mastery import Belief, Label, strength, strengths, weakest

TODAY = date(2026, 3, 2)


@dataclass
class Answer:
    item: str
    credit: float
    level: str = "medium"
    chance: float = 0.25
    day: str = str(TODAY)


BANK = [(f"c/{n}", ("easy", "medium", "hard")[n % 3], 0.25) for n in range(14)]


def ten(right, chance=0.25):
    levels = ["easy", "medium", "hard"]
    return [Answer(f"c/{n}", float(n < right), levels[n % 3], chance) for n in range(10)]


@pytest.mark.parametrize(
    ("answers", "label"),
    [
        ([], Label.UNKNOWN),
        ([Answer("c/a", 1.0)], Label.UNKNOWN),
        ([Answer("c/a", 0.0)], Label.UNKNOWN),
        ([Answer("c/a", 1.0, "hard", 0.0)], Label.UNKNOWN),
        ([Answer("c/a", 0.0), Answer("c/b", 0.0)], Label.UNKNOWN),
        ([Answer(f"c/{name}", 0.0) for name in "abc"], Label.WEAK),
        (ten(10), Label.STRONG),
        (ten(9, chance=0.0), Label.STRONG),
        (ten(7), Label.FAIR),
        (ten(3), Label.WEAK),
        (ten(0), Label.WEAK),
    ],
)
def test_a_label_needs_evidence(answers, label):
    assert strength(answers, TODAY).label is label


def test_nobody_is_strong_with_one_of_four_hard_questions_right():
    def label(hard, *, old=0):
        """Of many easy and medium questions, all right, and four hard ones, of which some are; those are `old` days old."""
        day = str(TODAY - timedelta(days=old))
        others = [Answer(f"c/{n}", 1.0, level) for n, level in enumerate(["easy", "medium"] * 12)]
        return strength(
            [*others, *(Answer(f"c/h{n}", float(n < hard), "hard", day=day) for n in range(4))], TODAY
        ).label

    assert [label(hard, old=200) for hard in range(5)] == [Label.UNKNOWN] * 2 + [Label.STRONG] * 3
    assert label(1) is not Label.STRONG
    assert label(4) is Label.STRONG


def test_being_right_by_guessing_says_less_than_computing_it():
    assert strength(ten(6, chance=0.5), TODAY).mean < strength(ten(6, chance=0.0), TODAY).mean


def test_a_hard_question_says_more_when_right_and_an_easy_one_when_wrong():
    def mean(level, credit):
        return strength([Answer("c/a", credit, level)], TODAY).mean

    assert mean("easy", 1) < mean("medium", 1) < mean("hard", 1)
    assert mean("easy", 0) < mean("medium", 0) < mean("hard", 0)


def test_a_hint_leaves_half():
    full, half, none = (strength([Answer("c/a", credit)], TODAY).mean for credit in (1.0, 0.5, 0.0))
    assert none < half < full


def test_only_the_last_answer_to_a_question_counts_and_of_one_day_the_first():
    earlier = Answer("c/a", 0.0, day=str(TODAY - timedelta(days=1)))
    assert strength([earlier, Answer("c/a", 1.0)], TODAY) == strength([Answer("c/a", 1.0)], TODAY)
    assert strength([Answer("c/a", 0.0), Answer("c/a", 1.0)], TODAY) == strength([Answer("c/a", 0.0)], TODAY)


def test_what_was_shown_long_ago_is_no_longer_sure():
    old = [Answer(a.item, a.credit, a.level, a.chance, str(TODAY - timedelta(days=400))) for a in ten(10)]
    assert strength(old, TODAY).label is Label.UNKNOWN


def test_the_weakest_concept_is_one_that_is_known_to_want_work():
    answers = [*ten(7), *(Answer(f"d/{n}", 0.0) for n in range(6)), Answer("e/a", 0.0)]
    known = strengths(answers, TODAY)
    assert set(known) == {"c", "d", "e"}
    assert weakest(known) == "d"
    assert weakest(strengths(ten(10), TODAY)) is None


def test_a_fair_concept_is_not_the_weakest_beside_one_that_is_probably_lower():
    def of(concept, *earned):
        return [Answer(f"{concept}/{number}", credit) for number, credit in enumerate(earned)]

    answers = [*ten(7), *of("d", 0.0, 1.0, 0.0, 1.0), *of("e", 1.0, 1.0, 1.0, 0.0), *of("f", 0.0, 0.0)]
    known = strengths(answers, TODAY)
    assert {concept: (known[concept].label, known[concept].has_verdict) for concept in "cdef"} == {
        "c": (Label.FAIR, True),
        "d": (Label.UNKNOWN, True),
        "e": (Label.UNKNOWN, True),
        "f": (Label.UNKNOWN, False),
    }
    assert known["f"].mean < known["d"].mean < min(known["c"].mean, known["e"].mean)
    assert weakest(known) == "d"
    assert weakest({concept: known[concept] for concept in "ef"}) == "e"
    assert weakest({"f": known["f"]}) is None


def test_a_concept_of_which_all_was_right_is_never_the_weakest():
    right = [Answer(f"c/{name}", 1.0, "easy", 0.25) for name in "abcdef"]
    assert strength(right, TODAY).label is Label.UNKNOWN  # easy ones alone cannot show that it is strong
    assert weakest(strengths(right, TODAY)) is None
    one_each = [Answer("c/a", 1.0, "hard", 0.0), *(Answer(f"{name}/a", 0.0) for name in "defg")]
    assert weakest(strengths(one_each, TODAY)) is None


def test_a_strength_is_told_with_how_sure_it_is():
    assert str(strength(ten(10), TODAY)) == snapshot("Based on 10 answers: probably 76–98% (strong)")
    assert str(strength(ten(10)[::3], TODAY)) == snapshot("Based on 4 answers: probably 36–96% (fair to strong)")
    assert strength(ten(10)[::3], TODAY).short == "probably 36–96%"
    assert str(strength([], TODAY)) == "no answers yet"
    assert str(strength([Answer("c/a", 1.0)], TODAY)) == "no verdict yet"


@pytest.mark.parametrize(
    ("right", "said"),
    [
        (10, ""),
        (
            7,
            "To be strong here, you need at least 3 more right answers to questions that are new to you or that you missed on an earlier day; hard ones count most.",
        ),
        (0, "Even right answers to all the other questions would not make you strong here; hard ones count most."),
    ],
)
def test_a_verdict_says_what_would_change_it(right, said):
    assert strength(ten(right), TODAY).outlook(BANK[: 14 if right else 5]) == said


def test_what_would_change_a_verdict_does():
    answers = ten(7)
    known = strength(answers, TODAY)
    assert known.label is Label.FAIR
    count = int(re.search(r"\d+", known.outlook(BANK))[0])
    right = {answer.item for answer in answers if answer.credit}
    hardest = sorted((each for each in BANK if each[0] not in right), key=lambda each: each[1] != "hard")[:count]
    tomorrow = TODAY + timedelta(days=1)
    more = [Answer(item, 1.0, level, chance, str(tomorrow)) for item, level, chance in hardest]
    assert strength([*answers, *more[1:]], tomorrow).label is not Label.STRONG
    assert strength([*answers, *more], tomorrow).label is Label.STRONG


def test_a_verdict_takes_three_answers():
    assert strength(ten(10)[:2], TODAY).outlook(BANK) == "A verdict takes 3 answers or more."


def test_a_question_tells_most_where_the_answer_is_open_and_cannot_be_guessed():
    flat = Belief()
    sure = strength(ten(10), TODAY).belief
    assert flat.information("medium", 0.0) > flat.information("medium", 0.25) > flat.information("medium", 0.5) > 0
    assert flat.information("medium", 1.0) < 0.01
    assert sure.information("hard", 0.0) > sure.information("easy", 0.0)
    assert sure.information("hard", 0.0) < flat.information("hard", 0.0)


@pytest.mark.parametrize("chance", [0.0, 0.25, 0.5])
@pytest.mark.parametrize("level", ["easy", "medium", "hard"])
def test_a_word_is_used_only_where_the_whole_range_lies_in_it(level, chance):
    claims = {Label.STRONG: (0.7, 1), Label.WEAK: (0, 0.5), Label.FAIR: (0.35, 0.85), Label.UNKNOWN: (0, 1)}
    labels = set()
    for count in range(3, 16):
        for right in range(count + 1):
            found = strength([Answer(f"c/{n}", float(n < right), level, chance) for n in range(count)], TODAY)
            low, high = claims[found.label]
            assert low <= found.low <= found.high <= high
            assert found.belief.between(found.low - 0.01, found.high + 0.01) >= 0.8
            labels.add(found.label)
    assert Label.UNKNOWN in labels
