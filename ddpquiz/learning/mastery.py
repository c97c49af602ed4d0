"""How strong a concept is, and how sure that is: a belief about what a learner knows, never a bare percentage.

The model: with strength s, a learner knows the answer to an easy question with chance sqrt(s), to a medium one with s,
to a hard one with s squared; who does not know guesses, and is right with the chance of a blind guess. The belief about
s starts flat, as a Beta(1, 1), and is updated by the last answer to each question; an answer loses half its weight in
sixty days. A hint halves the credit of an answer; it then counts half as right and half as wrong.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

_GRID = tuple((step + 0.5) / 100 for step in range(100))  # where the belief is held; the ends are left out
_EXPONENT = {"easy": 0.5, "medium": 1.0, "hard": 2.0}
_HALF_LIFE = 60.0  # days
_SURE = 0.8  # the belief that a label needs
_STRONG_FROM, _WEAK_TO = 0.7, 0.5
_WIDEST = 0.5  # an 80 % interval wider than this says nothing
_ENOUGH = 3  # answers; fewer say nothing, however they turned out
MEANING = (
    "The percentages say how much of a concept you are likely to know, judged by your last answer to each question."
)


class Label(StrEnum):
    """A strength in a word."""

    STRONG = "strong"
    FAIR = "fair"
    WEAK = "weak"
    UNKNOWN = "unknown"


class Answered(Protocol):
    """What the model needs of an answer; a row of the log has it."""

    @property
    def item(self) -> str: ...  # noqa: D102
    @property
    def day(self) -> str: ...  # noqa: D102
    @property
    def credit(self) -> float | None: ...  # noqa: D102
    @property
    def chance(self) -> float | None: ...  # noqa: D102
    @property
    def level(self) -> str | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Strength:
    """The belief about one concept: its mean, the interval that holds 80 % of it, and what it comes from."""

    mean: float
    low: float
    high: float
    label: Label
    answers: int
    lost: float = 0.0  # the credit that these answers did not earn

    def __str__(self) -> str:
        """Say it as screens do: the word first, then how sure that is."""
        if self.label is Label.UNKNOWN:
            return self.short
        return f"{self.label}: by {self.answers} answers you know {self.low:.0%} to {self.high:.0%} of it"

    @property
    def short(self) -> str:
        """Say it where there is little room; MEANING belongs below."""
        if self.label is Label.UNKNOWN:
            return "not enough answers yet" if self.answers else "no answers yet"
        return f"{self.label}, {self.low:.0%} to {self.high:.0%}"


def strength(answers: Iterable[Answered], today: date) -> Strength:
    """Return the belief about the strength of what these answers, oldest first, are about."""
    last = {answer.item: answer for answer in answers if answer.credit is not None}
    logs = [0.0] * len(_GRID)
    for answer in last.values():
        age = max(0, (today - date.fromisoformat(answer.day)).days)
        weight = 0.5 ** (age / _HALF_LIFE)
        credit, chance = answer.credit or 0.0, min(answer.chance or 0.0, 0.99)
        exponent = _EXPONENT.get(answer.level or "", 1.0)
        for place, s in enumerate(_GRID):
            right = chance + (1 - chance) * s**exponent
            logs[place] += weight * (credit * math.log(right) + (1 - credit) * math.log(1 - right))
    top = max(logs)
    masses = [math.exp(log - top) for log in logs]
    total = sum(masses)
    lost = sum(1 - (answer.credit or 0.0) for answer in last.values())
    return _told([mass / total for mass in masses], len(last), lost)


def strengths(answers: Iterable[Answered], today: date) -> dict[str, Strength]:
    """Return the belief about each concept that was ever asked about; `answers` are oldest first."""
    by_concept: dict[str, list[Answered]] = defaultdict(list)
    for answer in answers:
        by_concept[answer.item.split("/")[0]].append(answer)
    return {concept: strength(of_it, today) for concept, of_it in by_concept.items()}


def weakest(known: dict[str, Strength]) -> str | None:
    """Return the concept that needs work most, or None when wrong answers show none to be weak or fair."""
    wanting = [concept for concept, s in known.items() if s.label in (Label.WEAK, Label.FAIR) and s.lost]
    return min(wanting, key=lambda concept: (known[concept].mean, concept), default=None)


def _told(masses: list[float], answers: int, lost: float) -> Strength:
    mean = sum(s * mass for s, mass in zip(_GRID, masses, strict=True))
    low, high = _quantile(masses, 0.1), _quantile(masses, 0.9)
    above = sum(mass for s, mass in zip(_GRID, masses, strict=True) if s > _STRONG_FROM)
    below = sum(mass for s, mass in zip(_GRID, masses, strict=True) if s < _WEAK_TO)
    if answers < _ENOUGH:
        label = Label.UNKNOWN
    elif above >= _SURE:
        label = Label.STRONG
    elif below >= _SURE:
        label = Label.WEAK
    else:
        label = Label.FAIR if high - low <= _WIDEST else Label.UNKNOWN
    return Strength(mean, low, high, label, answers, lost)


def _quantile(masses: list[float], share: float) -> float:
    reached = 0.0
    for s, mass in zip(_GRID, masses, strict=True):
        reached += mass
        if reached >= share:
            return s
    return 1.0
