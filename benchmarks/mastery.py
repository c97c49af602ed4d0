"""How good the verdict on a concept is: simulated learners of known strength answer ten questions.

    python benchmarks/mastery.py [--learners 2000]

The questions are those of the shipped concepts, dealt as `ddpquiz test CONCEPT` deals them; a learner who does not know
an answer guesses. There are two kinds of learners: those of the model itself, and learners who know an answer with a
probability that follows a logistic curve, with questions that differ in difficulty within a level.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from ddpquiz.curriculum import loading
from ddpquiz.learning import quiz
from ddpquiz.learning.judge import chance
from ddpquiz.learning.mastery import Label, strength

if TYPE_CHECKING:
    from collections.abc import Callable

    from ddpquiz.curriculum.concept import Question

TODAY = date(2026, 1, 1)
POWER = {"easy": 0.5, "medium": 1.0, "hard": 2.0}
SHIFT = {"easy": 1.0, "medium": 0.0, "hard": -1.0}
SPREAD = 0.7  # of difficulties within a level, in logits
CLAIMS = {Label.STRONG: (0.7, 1.0), Label.WEAK: (0.0, 0.5), Label.FAIR: (0.35, 0.85)}


@dataclass
class Answer:
    """The parts of an answer that the model needs."""

    item: str
    credit: float
    level: str
    chance: float
    day: str = str(TODAY)


def own(s: float, question: Question, _: random.Random) -> float:
    return s ** POWER[question.level]


def logistic(s: float, question: Question, dice: random.Random) -> float:
    logit = math.log(s / (1 - s)) * math.sqrt(1 + SPREAD**2 / 2.9) + SHIFT[question.level] + dice.gauss(0, SPREAD)
    return 1 / (1 + math.exp(-logit))  # stretched so that s is the share of medium questions that is known


def answer(s: float, question: Question, knows: Callable[..., float], dice: random.Random) -> Answer:
    guess = chance(question)
    right = dice.random() < guess + (1 - guess) * knows(s, question, dice)
    return Answer(question.key, float(right), question.level, guess)


def table(title: str, knows: Callable[..., float], pools: list[list[Question]], learners: int) -> None:
    print(f"\n{title}\n")
    print("| strength | strong | fair | weak | not enough | claim true | 80 % interval contains it |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    dice = random.Random(1)
    for s in (0.05, 0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, None):
        labels, true, held = Counter[Label](), 0, 0
        for _ in range(learners):
            mine = s if s is not None else dice.uniform(0.01, 0.99)
            asked = quiz.choose_questions(dice.choice(pools), 10, dice)
            known = strength([answer(mine, question, knows, dice) for question in asked], TODAY)
            labels[known.label] += 1
            held += known.low <= mine <= known.high
            low, high = CLAIMS.get(known.label, (0.0, 0.0))
            true += low < mine < high
        labeled = learners - labels[Label.UNKNOWN]
        shares = " | ".join(f"{labels[label] / learners:.0%}" for label in (*_shown(), Label.UNKNOWN))
        name = f"{s:.2f}" if s is not None else "uniform"
        print(f"| {name} | {shares} | {true / labeled:.0%} | {held / learners:.0%} |")


def _shown() -> tuple[Label, ...]:
    return Label.STRONG, Label.FAIR, Label.WEAK


def until_clear(pools: list[list[Question]], learners: int) -> None:
    print("\nQuestions until strong or weak is clear, at most all of a concept's\n")
    print("| order | questions | clear |\n| --- | --- | --- |")
    dice = random.Random(1)
    abilities = [dice.uniform(0.01, 0.99) for _ in range(learners)]
    for order in ("random", "adaptive"):
        dice, counts, clear = random.Random(2), 0, 0
        for s in abilities:
            left = list(dice.choice(pools))
            dice.shuffle(left)
            count, done = _play(s, left, order, dice)
            counts, clear = counts + count, clear + done
        print(f"| {order} | {counts / learners:.2f} | {clear / learners:.0%} |")


def _play(s: float, left: list[Question], order: str, dice: random.Random) -> tuple[int, bool]:
    from ddpquiz.curriculum.posed_question import pose

    posed = [pose(question, dice) for question in left]
    asked, answers = [], []
    while True:
        best = quiz.most_informative(posed, asked, answers)
        if best is None:
            return len(asked), len(asked) < len(posed)
        asked.append(best if order == "adaptive" else posed[len(asked)])
        question = asked[-1].question
        answers.append((question, answer(s, question, own, dice).credit))


def main() -> None:
    parser = argparse.ArgumentParser(description="Simulate learners against the verdict.")
    parser.add_argument("--learners", type=int, default=2000)
    learners = parser.parse_args().learners
    pools = [list(concept.questions) for concept in loading.load().concepts]
    table("Learners of the model", own, pools, learners)
    table("Logistic learners", logistic, pools, learners)
    until_clear(pools, learners // 4)


if __name__ == "__main__":
    main()
