"""How strong a concept is: the range of what a learner probably knows, never a bare percentage.

The model: a learner with strength s knows the answer to an easy question with probability sqrt(s), to a medium one
with s, to a hard one with s squared; a learner who does not know it guesses, with the chance of a blind guess, which
`judge.chance` computes and `answers.save_answer` writes into the row of the answer. The belief about s starts flat, as
a Beta(1, 1), and is updated by the last answer to each question; of several on one day by the first, since the solution
was seen then. An answer loses half its weight in sixty days. A hint halves the credit of an answer, which then counts
half as right and half as wrong.

A lab that was passed counts as a right answer to a hard question that nobody guesses, on the day of its last pass. If
its solution was seen before the first pass, that is half the credit, as with a hint. A failed check counts nothing.

A label is a claim with a probability of at least 80%: strong means that s is over 0.7, weak that it is under 0.5, fair
that it is from 0.35 to 0.85. Nobody is strong who has less than half of the hard questions right. The range that is
shown holds 80% of the belief and lies within the claim; without a label it leaves out 10% at each end, and is named
by the two labels that it lies between, if it begins or ends in the range of fair.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from ddpquiz.learning.log_rows import Row
from ddpquiz.plural import plural

_GRID = tuple((step + 0.5) / 100 for step in range(100))  # where the belief is held; the ends are left out
_LEVELS = ("easy", "medium", "hard")
_KNOWN = {level: tuple(s**power for s in _GRID) for level, power in zip(_LEVELS, (0.5, 1.0, 2.0), strict=True)}
_HALF_LIFE = 60.0  # days
_SURE = 0.8  # the belief that a label needs
_MOST = 0.99  # the highest chance of a blind guess that is used; above it, an answer shows nothing
ENOUGH = 3  # answers; fewer give no label
_HARD = 0.5  # of the answers to hard questions: who has less of them right is not strong, however much else is
MEANING = (
    "The range says how much of a concept you probably know (with 80% certainty). It is based on your latest answers "
    "in tests and before demos, and on the labs that you passed. Answers in lessons do not count."
)
WORDS = (
    "Strong: the range begins at 70% or more, and of the hard questions that were asked, at least half were right. "
    "Weak: it ends at 50% or less. Fair: neither, and it lies between 35 and 85%. A range that only begins there is "
    "fair to strong, one that only ends there weak to fair; any other has no verdict yet."
)


class Label(StrEnum):
    """A strength in a word."""

    STRONG = "strong"
    FAIR = "fair"
    WEAK = "weak"
    UNKNOWN = "unknown"

    @property
    def words(self) -> str:
        """The label as a learner reads it."""
        return "no verdict" if self is Label.UNKNOWN else str(self)


# The range of s that each label claims; the first claim that holds is used
_CLAIMS = {Label.STRONG: (0.7, 1.0), Label.WEAK: (0.0, 0.5), Label.FAIR: (0.35, 0.85)}
_BETWEEN = {(True, False): "fair to strong", (False, True): "weak to fair"}  # whether it begins and ends in FAIR


@dataclass(frozen=True, slots=True)
class Belief:
    """The probability of each strength on a grid from 0 to 1; `masses` sum to 1."""

    masses: tuple[float, ...] = (1 / len(_GRID),) * len(_GRID)

    def after(self, level: str, chance: float, credit: float, weight: float = 1.0) -> Belief:
        """The belief after an answer that earned some credit."""
        wrong = weight * (1 - credit)
        likely = [p ** (weight * credit) * (1 - p) ** wrong for p in _right(level, chance)]
        masses = [mass * each for mass, each in zip(self.masses, likely, strict=True)]
        total = sum(masses)
        return Belief(tuple(mass / total for mass in masses))

    def information(self, level: str, chance: float) -> float:
        """The expected information of an answer to such a question about weak, strong or between, in bits."""
        bands: dict[int, tuple[float, float]] = {}  # the probability of the band, and of the band with a right answer
        for s, mass, p in zip(_GRID, self.masses, _right(level, chance), strict=True):
            band = (s >= _CLAIMS[Label.WEAK][1]) + (s > _CLAIMS[Label.STRONG][0])
            whole, right = bands.get(band, (0.0, 0.0))
            bands[band] = whole + mass, right + mass * p
        rights = sum(right for _, right in bands.values())
        return _entropy(rights) - sum(whole * _entropy(right / whole) for whole, right in bands.values() if whole)

    def between(self, low: float, high: float) -> float:
        """The probability that the strength lies between two values."""
        return sum(mass for s, mass in zip(_GRID, self.masses, strict=True) if low < s < high)

    @property
    def mean(self) -> float:
        return sum(s * mass for s, mass in zip(_GRID, self.masses, strict=True))

    def quantile(self, share: float) -> float:
        """The strength below which a share of the belief lies."""
        reached = 0.0
        for s, mass in zip(_GRID, self.masses, strict=True):
            reached += mass
            if reached >= share:
                return s
        return 1.0

    def range(self, label: Label) -> tuple[float, float]:
        """The range that holds 80% of the belief, near the middle of it but within the claim of the label."""
        low, high = _CLAIMS.get(label, (0.0, 1.0))
        below = min(max((1 - _SURE) / 2, self.between(-1.0, low)), 1 - self.between(high, 2.0) - _SURE)
        return max(low, self.quantile(below)), min(high, self.quantile(below + _SURE))

    def label(self, answers: int, *, hard: float = 1.0) -> Label:
        """The claim that holds after so many answers; `hard` is the share of the hard ones that was right."""
        claims = (label for label, claim in _CLAIMS.items() if self.between(*claim) >= _SURE)
        possible = (label for label in claims if label is not Label.STRONG or hard >= _HARD)
        return next(possible, Label.UNKNOWN) if answers >= ENOUGH else Label.UNKNOWN


class Evidence(NamedTuple):
    """An answer as evidence: the level of its question, the chance of a blind guess, its credit, and its weight."""

    level: str
    chance: float
    credit: float
    weight: float


@dataclass(frozen=True, slots=True)
class Strength:
    """The strength of one concept: the mean, the range that holds 80% of the belief, and the evidence."""

    mean: float
    low: float
    high: float
    label: Label
    answers: int
    lost: float = 0.0  # the credit that these answers did not earn
    belief: Belief = field(default=Belief(), repr=False)
    pieces: Mapping[str, Evidence] = field(default_factory=dict, repr=False)  # of evidence, by item

    @property
    def has_verdict(self) -> bool:
        """Whether there are enough answers to judge by."""
        return self.answers >= ENOUGH

    def __str__(self) -> str:
        """The verdict as a sentence, such as `Based on 4 answers: probably 2–28% (weak)`."""
        if not self.has_verdict:
            return self.short
        word: str = self.label
        if self.label is Label.UNKNOWN:
            low, high = _CLAIMS[Label.FAIR]
            word = _BETWEEN.get((self.low >= low, self.high <= high), f"{self.label.words} yet")
        return f"Based on {self.answers} answers: probably {self.share} ({word})"

    @property
    def share(self) -> str:
        """The range of what is probably known, such as `2–28%`."""
        return f"{100 * self.low:.0f}–{100 * self.high:.0f}%"

    @property
    def short(self) -> str:
        """The verdict where there is little room; MEANING belongs below."""
        if not self.has_verdict:
            return f"{self.label.words} yet" if self.answers else "no answers yet"
        return f"{'probably' if self.label is Label.UNKNOWN else f'{self.label},'} {self.share}"

    def outlook(self, questions: Iterable[tuple[str, str, float]]) -> str:
        """What would make the concept strong, if it is not; `questions` are its own, each with level and chance."""
        if not self.has_verdict:
            return f"A verdict takes {ENOUGH} answers or more."
        if self.label is Label.STRONG:
            return ""
        pieces = dict(self.pieces)
        open_ones = [each for each in questions if each[0] not in pieces or pieces[each[0]].credit < 1]
        open_ones.sort(key=lambda each: _LEVELS.index(each[1]), reverse=True)
        for count, (item, level, chance) in enumerate(open_ones, 1):
            pieces[item] = Evidence(level, chance, 1.0, 1.0)
            if _label(pieces.values()) is Label.STRONG:
                which = "questions that are new to you or that you missed on an earlier day; hard ones count most"
                return f"To be strong here, you need at least {plural(count, 'more right answer')} to {which}."
        return "Even right answers to all the other questions would not make you strong here; hard ones count most."


def strength(answers: Iterable[Row], today: date) -> Strength:
    """The strength of the concept that these answers, oldest first, are about."""
    last: dict[str, Row] = {}
    for answer in answers:
        if answer.credit is not None and (answer.item not in last or last[answer.item].day != answer.day):
            last[answer.item] = answer
    pieces = {
        item: Evidence(
            answer.level or "",
            answer.chance or 0.0,
            answer.credit or 0.0,
            0.5 ** (max(0, (today - date.fromisoformat(answer.day)).days) / _HALF_LIFE),
        )
        for item, answer in last.items()
    }
    belief = _belief(pieces.values())
    lost = sum(1 - piece.credit for piece in pieces.values())
    label = _label(pieces.values())
    return Strength(belief.mean, *belief.range(label), label, len(last), lost, belief, pieces)


def strengths(answers: Iterable[Row], today: date) -> dict[str, Strength]:
    """The strength of each concept that was ever asked about; `answers` are oldest first."""
    by_concept: dict[str, list[Row]] = defaultdict(list)
    for answer in answers:
        by_concept[answer.item.rpartition("/")[0]].append(answer)
    return {concept: strength(rows, today) for concept, rows in by_concept.items()}


def weakest(known: dict[str, Strength]) -> str | None:
    """The concept with the lowest mean of those that have wrong answers and enough to judge by, and are not strong.

    Its range may be too wide for a label; a fair concept beside it, with a higher mean, would not be the weakest.
    """
    weak = [concept for concept, s in known.items() if s.has_verdict and s.lost and s.label is not Label.STRONG]
    return min(weak, key=lambda concept: (known[concept].mean, concept), default=None)


@lru_cache(maxsize=256)
def _right(level: str, chance: float) -> tuple[float, ...]:
    """The chance of a right answer at each strength."""
    chance = min(chance, _MOST)
    return tuple(chance + (1 - chance) * known for known in _KNOWN.get(level, _GRID))


def _entropy(p: float) -> float:
    return -(p * math.log2(p) + (1 - p) * math.log2(1 - p)) if 0 < p < 1 else 0.0


def _label(pieces: Collection[Evidence]) -> Label:
    hard = [piece.credit for piece in pieces if piece.level == "hard"]
    return _belief(pieces).label(len(pieces), hard=sum(hard) / len(hard) if hard else 1.0)


def _belief(pieces: Iterable[Evidence]) -> Belief:
    belief = Belief()
    for piece in pieces:
        belief = belief.after(*piece)
    return belief
