"""How much simulated learners recall in half a year of study, compared with what the schedule promises.

    python benchmarks/simulate.py [--days 180] [--retention 0.9] [--learners 5]

They play the real sittings (`learning/study.py`) with cards that come due. The first learner forgets as FSRS
assumes; the others do not, and their gap to the desired retention is the cost of a wrong model.
"""

from __future__ import annotations

import argparse
import random
import statistics
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from fsrs.scheduler import LOWER_BOUNDS_PARAMETERS, UPPER_BOUNDS_PARAMETERS

from ddpquiz.curriculum.concept import Card, CardLevel
from ddpquiz.learning import study
from ddpquiz.learning.schedule import FSRS_6, Grade, Memory, Schedule, Weights, study_day
from ddpquiz.learning.standing import new_left

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date

START = datetime(2026, 1, 1, 9, tzinfo=UTC)
CARDS = tuple(Card(f"c{n // 8}", f"i{n}", CardLevel.BEGINNER, "?", "!", "") for n in range(2000))
RECALLED = (Grade.HARD, *[Grade.GOOD] * 8, Grade.EASY)  # the grades of learners who recall a card


@dataclass(frozen=True)
class Learner:
    """A learner whose memory has the stability that `truth` computes, and the chance of recall that `fades` returns."""

    name: str
    truth: Schedule
    fades: Callable[[Schedule, Memory, date], float]


def by_fsrs(truth: Schedule, memory: Memory, day: date) -> float:
    """The chance of recall by FSRS's own curve."""
    return truth.recall(memory, day)


def exponential(truth: Schedule, memory: Memory, day: date) -> float:
    """The chance of recall if forgetting were exponential, with the same stability: 90 % after so many days."""
    del truth
    return float(0.9 ** ((day - (memory.last or day)).days / (memory.stability or 1.0)))


def noisy(dice: random.Random, retention: float) -> Schedule:
    """A memory whose weights each differ from the default by about a fifth."""
    bounds = zip(FSRS_6, LOWER_BOUNDS_PARAMETERS, UPPER_BOUNDS_PARAMETERS, strict=True)
    weights = tuple(min(max(w * dice.lognormvariate(0, 0.2), low), high) for w, low, high in bounds)
    return Schedule(Weights(weights, retention))


class HalfYear(NamedTuple):
    """The results of half a year. A look is the first look of the day at a card that was learned before."""

    recalled: float
    lasting: float  # the share recalled, of memories with a stability of at least a day
    looks: int
    a_day: float  # reviews
    cards: int


def half_a_year(learner: Learner, schedule: Schedule, days: int, dice: random.Random) -> HalfYear:
    """What a learner recalls who studies each day."""
    memories: dict[str, Memory] = {}
    truth: dict[str, Memory] = {}
    recalled, looks, reviews = 0, 0, 0
    lasting = [0, 0]  # recalled, of how many
    for number in range(days):
        at = START + timedelta(days=number)
        day = study_day(at)
        chosen = study.choose_cards(CARDS, memories, day, study.QueueRules(limit=10_000, new=new_left(memories, day)))
        sitting = study.begin(chosen, memories, schedule, at)
        while card := sitting.card:
            real, known = truth.get(card.key), sitting.memory(card)
            knows = real is not None and dice.random() < learner.fades(learner.truth, real, day)
            if known is None or real is None:
                grade = dice.choice((Grade.AGAIN, Grade.GOOD, Grade.GOOD))
            elif known.last == day:
                grade = Grade.GOOD  # read a moment ago
            else:
                looks, recalled = looks + 1, recalled + knows
                if (known.stability or 0) >= 1:
                    lasting = [lasting[0] + knows, lasting[1] + 1]
                grade = dice.choice(RECALLED) if knows else Grade.AGAIN
            truth[card.key] = learner.truth.review(card.key, real, grade, day)
            sitting, _ = study.step(sitting, study.StudyAction.SHOW, at)
            sitting, _ = study.step(sitting, grade, at)
            reviews += 1
            sitting = replace(sitting, previous=None)  # saves memory: nothing is undone here
        memories = dict(sitting.memories)
    return HalfYear(recalled / max(1, looks), lasting[0] / max(1, lasting[1]), looks, reviews / days, len(memories))


def main() -> None:
    """Simulate the learners, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--days", type=int, default=180)
    parser.add_argument("--retention", type=float, default=0.9)
    parser.add_argument("--learners", type=int, default=5, help="number of learners with weights of their own")
    wanted = parser.parse_args()
    schedule = Schedule(Weights(retention=wanted.retention))
    learners = [Learner("FSRS's own model", schedule, by_fsrs), Learner("exponential", schedule, exponential)]
    dice = [random.Random(number) for number in range(wanted.learners)]
    learners += [Learner(f"own weights, {n}", noisy(one, wanted.retention), by_fsrs) for n, one in enumerate(dice, 1)]
    print(f"{wanted.days} days, 10 new cards a day, desired retention {wanted.retention:.0%}\n")
    columns = (
        f"{'recalled':>9} {'gap':>6} {'± 2 se':>7} {'if it lasts':>12} {'looks':>8} {'reviews a day':>14} {'cards':>6}"
    )
    print(f"{'forgets by':18} {columns}")
    gaps = []
    for learner in learners:
        result = half_a_year(learner, schedule, wanted.days, random.Random(7))
        gap, error = (
            100 * (result.recalled - wanted.retention),
            200 * (result.recalled * (1 - result.recalled) / result.looks) ** 0.5,
        )
        gaps.append(gap)
        counts = f"{result.looks:8,} {result.a_day:14.1f} {result.cards:6,}"
        print(
            f"{learner.name:18} {result.recalled:9.1%} {gap:+6.1f} {error:7.1f} {result.lasting:12.1%} {counts}",
            flush=True,
        )
    if wanted.learners:
        print(f"\nlearners with weights of their own: mean gap {statistics.mean(gaps[2:]):+.1f} points")
    print("if it lasts: only reviews of memories with a stability of a day or more; no card comes back sooner")
    print(f"by FSRS's own model: {abs(gaps[0]):.1f} points off, at most 2.0 wanted")


if __name__ == "__main__":
    main()
