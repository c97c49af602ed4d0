"""Whether a learner is right as often as they say they are sure."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

_KEYS = {2: 0.5, 3: 0.75, 4: 0.95}  # what each key says; 1 says that it is a guess
_FEW = 10  # answers; a lean in fewer is no news
ENOUGH = 30  # answers; that there is no lean says little in fewer
_LEAN = 1.64  # standard deviations; by chance alone it is reached in one sitting of ten


class Lean(Enum):
    """In which direction somebody errs."""

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
    """How sureness and right answers go together; `lean` is None while there are too few answers to say."""

    bands: tuple[Band, ...]
    brier: float  # the mean squared distance of what was said from what was; 0 is best, always saying 50 % gives 0.25
    lean: Lean | None

    @property
    def answers(self) -> int:
        return sum(band.answers for band in self.bands)

    @property
    def said(self) -> float:
        """The mean of what was said."""
        return sum(band.said * band.answers for band in self.bands) / self.answers

    @property
    def right(self) -> float:
        """The share that was right."""
        return sum(band.right for band in self.bands) / self.answers


def sureness(chance: float) -> dict[int, float]:
    """Return what each key says of an answer that a blind guess gets right with a chance.

    That chance is rounded to quarters, so that guesses at questions of several kinds can be counted together.
    """
    return {1: round(4 * chance) / 4, **_KEYS}


def calibration(answers: Iterable[tuple[float, bool]]) -> Calibration | None:
    """Return the calibration of answers, each with the sureness and whether it was right; None when there are none.

    If somebody is right exactly as often as they say, right answers scatter with variance sum p(1-p) around sum p; only
    what goes beyond that is called a lean.
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
