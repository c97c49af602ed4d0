"""Whether a learner is right as often as they say they are sure."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

_KEYS = {2: 0.5, 3: 0.75, 4: 0.95}  # the sureness of each key; 1 is a guess
_FEW = 10  # answers; fewer are too few to show a lean
ENOUGH = 30  # answers; fewer are too few to rule a lean out
_LEAN = 1.64  # standard deviations; chance alone reaches this in one sitting out of ten


class Lean(Enum):
    """In which direction a learner errs."""

    OVER = "overconfident"
    UNDER = "underconfident"
    NONE = "well calibrated"


@dataclass(frozen=True, slots=True)
class Band:
    """The answers that were given with one sureness."""

    said: float
    answers: int
    right: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """How sureness and right answers agree; `lean` is None while there are too few answers."""

    bands: tuple[Band, ...]
    brier: float  # the mean squared difference of sureness and result; 0 is best, always saying 50% gives 0.25
    lean: Lean | None

    @property
    def answers(self) -> int:
        return sum(band.answers for band in self.bands)

    @property
    def said(self) -> float:
        """The mean sureness."""
        return sum(band.said * band.answers for band in self.bands) / self.answers

    @property
    def right(self) -> float:
        """The share of right answers."""
        return sum(band.right for band in self.bands) / self.answers


def sureness(chance: float) -> dict[int, float]:
    """Return the sureness that each key means, for a question with this chance of a right guess.

    That chance is rounded to quarters, so that guesses at questions of several kinds can be counted together.
    """
    return {1: round(4 * chance) / 4, **_KEYS}


def calibration(answers: Iterable[tuple[float, bool]]) -> Calibration | None:
    """Return the calibration of answers, each with the sureness and whether it was right; None when there are none.

    For a learner who is right exactly as often as they say, the number of right answers has the mean sum p and the
    variance sum p(1-p); only a larger difference is a lean.
    """
    given = list(answers)
    if not given:
        return None
    bands = tuple(
        Band(said, len(rights), sum(rights))
        for said in sorted({said for said, _ in given})
        for rights in [[right for each, right in given if each == said]]
    )
    brier = sum((said - right) ** 2 for said, right in given) / len(given)
    surplus = sum(said - right for said, right in given)
    spread = math.sqrt(sum(said * (1 - said) for said, _ in given))
    lean = Lean.OVER if surplus > _LEAN * spread else Lean.UNDER if -surplus > _LEAN * spread else Lean.NONE
    return Calibration(bands, brier, lean if len(given) >= (ENOUGH if lean is Lean.NONE else _FEW) else None)
