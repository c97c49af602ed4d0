"""Which questions a quiz asks: spread over the subjects, or in an adaptive quiz those that are most informative."""

import random
import re
from collections import Counter
from dataclasses import replace

import pytest
from run_program import piped
from sample import BYTES, HOOKS, PHASES, PRINTS, START, STEPS
from sample_sittings import play, quizzing, right, screen

from ddpquiz.curriculum.concept import Kind, Level
from ddpquiz.curriculum.posed_question import expected, pose
from ddpquiz.learning import mastery, quiz
from ddpquiz.learning.judge import chance
from ddpquiz.learning.quiz import Given, QuizAction, Rules, begin, choose_questions


def wrong(state):
    return Given("2" if expected(state.posed) == "1" else "1")


def pool(dice, size=30):
    made = []
    for number in range(size):
        question = (BYTES, STEPS, PHASES, HOOKS)[number % 4]
        question = replace(question, concept="c", id=f"q{number}", level=tuple(Level)[number % 3])
        made.append(pose(question, dice))
    return made


def asked_until_clear(ability, dice, order):
    """Return how many questions it took until a verdict was clear, at most all."""
    left, asked, answers = pool(dice), [], []
    dice.shuffle(left)
    while True:
        posed = quiz.most_informative(left, asked, answers) if order == "adaptive" else left[len(asked)]
        asked.append(posed)
        question = posed.question
        knows = dice.random() < ability ** {"easy": 0.5, "medium": 1, "hard": 2}[question.level]
        answers.append((question, float(knows or dice.random() < chance(question))))
        if len(asked) == len(left) or quiz.most_informative(left, asked, answers) is None:
            return len(asked)


def test_it_needs_fewer_questions_than_a_random_order_does(scale):
    dice = random.Random(7)
    abilities = [dice.random() for _ in range(scale(40, 120))]

    def mean(order):
        dice = random.Random(8)
        return sum(asked_until_clear(ability, dice, order) for ability in abilities) / len(abilities)

    assert mean("adaptive") < 0.95 * mean("random")


def test_it_asks_each_question_once_and_stops_at_the_count():
    state = begin([one.question for one in pool(random.Random(1))], random.Random(1), START, rules=Rules(adaptive=4))
    for number in range(4):
        assert len(state.asked) == number + 1
        state = play(state, (right if number % 2 else wrong)(state), QuizAction.NEXT)
    assert state.posed is None
    assert len({posed.question.key for posed in state.asked}) == 4


def test_it_stops_when_the_verdict_is_clear():
    state = begin([one.question for one in pool(random.Random(1))], random.Random(1), START, rules=Rules(adaptive=15))
    while state.posed:
        state = play(state, right(state), QuizAction.NEXT)
    belief = mastery.Belief()
    for answer in state.answers:
        belief = belief.after(answer.posed.question.level, chance(answer.posed.question), answer.credit)
    assert belief.label(len(state.answers)) is mastery.Label.STRONG
    assert 3 <= len(state.answers) < 10


def test_undo_reverts_the_choice_of_a_question_too():
    first = begin([BYTES, PHASES, STEPS], random.Random(1), START, rules=Rules(adaptive=3))
    second = play(first, QuizAction.SKIP)
    assert len(second.asked) == 2
    assert play(second, QuizAction.UNDO).asked == first.asked


def test_concepts_are_asked_about_in_turn():
    state = begin([BYTES, PHASES, HOOKS, PRINTS], random.Random(1), START, rules=Rules(adaptive=4))
    for _ in range(2):
        state = play(state, right(state), QuizAction.NEXT)
    assert {posed.question.concept for posed in state.asked[:2]} == {"ring", "ddp"}


def test_an_adaptive_quiz_says_how_many_it_may_be(progress):
    seat = quizzing(progress, BYTES, PHASES, STEPS, rules=Rules(adaptive=3))
    assert re.match(r"Question 1 of at most 3 · \w+ · The ring\n", screen(seat))


def test_adaptive_and_wrong_exclude_each_other(home):
    done = piped(home, "test", "--adaptive", "--wrong")
    assert done.returncode == 2
    assert "--adaptive and --wrong each choose the questions; use only one of the two." in " ".join(
        re.sub("[│|]", " ", done.stderr).split()
    )


def many():
    return [
        replace(question, concept=concept, id=f"{question.id}-{level}", level=level)
        for concept in ("a", "b", "c")
        for level in Level
        for question in (BYTES, PHASES, STEPS, HOOKS, PRINTS)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_questions_are_spread_over_concepts_levels_and_kinds(seed):
    chosen = choose_questions(many(), 9, random.Random(seed))
    assert set(Counter(q.concept for q in chosen).values()) == {3}
    assert [q.level for q in chosen] == [Level.EASY] * 3 + [Level.MEDIUM] * 3 + [Level.HARD] * 3
    assert max(Counter(q.kind for q in chosen).values()) <= 3
    assert len({q.key for q in chosen}) == 9


def test_a_seed_decides_the_questions_and_their_shape():
    one, two = ([random.Random(4711), random.Random(4711)], [random.Random(1), random.Random(2)])
    first, second = (begin(choose_questions(many(), 9, dice), dice, START).asked for dice in one)
    assert first == second
    first, second = (begin(choose_questions(many(), 9, dice), dice, START).asked for dice in two)
    assert first != second


def test_what_was_answered_right_before_waits_for_the_rest():
    known = {q.key: 1 for q in many() if q.kind is not Kind.ORDER}
    chosen = choose_questions(many(), 9, random.Random(3), known)
    assert Counter(q.kind for q in chosen)[Kind.ORDER] >= 6
