"""Lines through measured times of a collective: seconds = alpha + beta x bytes, in one part or in two."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

FEWEST = 3  # sizes that a line needs
FITS = 0.10  # mean relative error up to which one line fits
ROUNDS = 12  # in which a line is weighted again
CLOSE = 0.01  # relative errors below this count the same
GAIN = 0.7  # two lines replace one if their mean error is at most this share of its error


@dataclass(frozen=True, slots=True)
class CostLine:
    """Seconds of an operation on up to `until` bytes: `alpha` seconds and `beta` seconds for each byte.

    The alpha of a second line is where it would cut the axis, and may be negative: no call takes that time.
    """

    alpha: float
    beta: float
    until: float = math.inf

    def seconds(self, size: float) -> float:
        """Return the seconds of an operation on some bytes."""
        return self.alpha + self.beta * size


@dataclass(frozen=True, slots=True)
class CostFit:
    """One or two lines, the smaller sizes first, and the relative errors of their sizes."""

    lines: tuple[CostLine, ...]
    mean_error: float
    median_error: float
    single_error: float  # the mean relative error of a single line

    def seconds(self, size: float) -> float:
        """Return the predicted seconds of an operation on some bytes; never less than those of no bytes."""
        line = next(each for each in self.lines if size <= each.until)
        return max(line.seconds(size), self.lines[0].alpha)

    @property
    def bytes_per_second(self) -> float:
        """The speed of large operations; infinite if no time was seen to depend on the size."""
        return 1 / self.lines[-1].beta if self.lines[-1].beta else math.inf


def fit(points: Sequence[tuple[float, float]]) -> CostFit:
    """Return the lines through (bytes, seconds) that make the relative errors small; times span five powers of ten.

    ValueError if there are fewer than three sizes.
    """
    ordered = sorted(points)
    if len({size for size, _ in ordered}) < FEWEST:
        raise ValueError(f"A line needs {FEWEST} sizes or more.")
    one = (_line(ordered, first=True),)
    single = fmean(_errors(one, ordered))
    cuts = range(FEWEST, len(ordered) - FEWEST + 1)
    best = min((_two(ordered, cut) for cut in cuts), key=lambda lines: fmean(_errors(lines, ordered)), default=one)
    lines = best if single > FITS and fmean(_errors(best, ordered)) <= GAIN * single else one
    errors = _errors(lines, ordered)
    return CostFit(lines, fmean(errors), median(errors), single)


def _two(points: Sequence[tuple[float, float]], cut: int) -> tuple[CostLine, ...]:
    """Return a line for the sizes before a cut and another one for those after it."""
    low, high = _line(points[:cut], first=True), _line(points[cut:], first=False)
    last, following = points[cut - 1][0], points[cut][0]
    slopes = low.beta - high.beta
    crossing = (high.alpha - low.alpha) / slopes if slopes else 0.0
    until = crossing if last <= crossing <= following else math.sqrt(last * following)
    return (CostLine(low.alpha, low.beta, until), high)


def _line(points: Sequence[tuple[float, float]], *, first: bool) -> CostLine:
    """Return the line whose relative errors are small in sum: one disturbed size does not move it much.

    It never falls, and the first one does not start below zero. Least squares, weighted again by what they leave.
    """
    weights = [seconds**-2 for _, seconds in points]
    line = _least_squares(points, weights, first=first)
    for _ in range(ROUNDS):
        errors = _errors((line,), points)
        weights = [seconds**-2 / max(error, CLOSE) for error, (_, seconds) in zip(errors, points, strict=True)]
        line = _least_squares(points, weights, first=first)
    return line


def _least_squares(points: Sequence[tuple[float, float]], weights: Sequence[float], *, first: bool) -> CostLine:
    whole = sum(weights)
    size = sum(w * x for w, (x, _) in zip(weights, points, strict=True)) / whole
    time = sum(w * y for w, (_, y) in zip(weights, points, strict=True)) / whole
    spread = sum(w * (x - size) ** 2 for w, (x, _) in zip(weights, points, strict=True))
    both = sum(w * (x - size) * (y - time) for w, (x, y) in zip(weights, points, strict=True))
    beta = max(0.0, both / spread) if spread else 0.0
    alpha = time - beta * size
    if first and alpha < 0:
        squares = sum(w * x * x for w, (x, _) in zip(weights, points, strict=True))
        return CostLine(0.0, sum(w * x * y for w, (x, y) in zip(weights, points, strict=True)) / squares)
    return CostLine(alpha, beta)


def _errors(lines: Sequence[CostLine], points: Sequence[tuple[float, float]]) -> list[float]:
    """Return the relative error of each size."""
    found = []
    for size, seconds in points:
        line = next(each for each in lines if size <= each.until)
        found.append(abs(line.seconds(size) - seconds) / seconds)
    return found
