"""The clocks of several machines, compared by what their ranks did together.

All members of a collective such as an all-reduce leave it at about the same time, and none before all have entered.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

UNCOMPARED = 1.0  # seconds by which clocks that nothing compares may differ: those of a cluster are synchronized


class Clock(NamedTuple):
    """A monotonic clock, which all processes of a machine share until it is booted again."""

    host: str
    boot: str


class Visit(NamedTuple):
    """When a rank entered a collective and when it left, on its own clock."""

    clock: Clock
    entered: float
    left: float


@dataclass(frozen=True, slots=True)
class Alignment:
    """What to add to the times of each clock; afterwards two of them are at most `error` apart."""

    offsets: Mapping[Clock, float]
    error: float
    uncompared: tuple[str, ...] = ()  # hosts whose time of day was trusted, since nothing else could be


def align(guesses: Mapping[Clock, float], collectives: Iterable[Iterable[Visit]]) -> Alignment:
    """Compare clocks; `guesses` are their offsets according to the time of day.

    Clocks that take part in the same collectives are compared directly, others through those that they share.
    """
    first = next(iter(guesses))
    if len(guesses) == 1:
        return Alignment({first: 0.0}, 0.0)
    compared = _compare_pairs(collectives)
    offsets, errors = {first: guesses[first]}, {first: 0.0}
    while ways := [
        (errors[one] + error, other, offsets[one] + difference)
        for (one, other), (difference, error) in compared.items()
        if one in offsets and other not in offsets
    ]:
        error, clock, offset = min(ways)
        offsets[clock], errors[clock] = offset, error
    uncompared = [clock for clock in guesses if clock not in offsets]
    for clock in uncompared:
        offsets[clock], errors[clock] = guesses[clock], UNCOMPARED
    two_worst = sorted(errors.values())[-2:]
    return Alignment(offsets, sum(two_worst), tuple(clock.host for clock in uncompared))


def _compare_pairs(collectives: Iterable[Iterable[Visit]]) -> dict[tuple[Clock, Clock], tuple[float, float]]:
    """Return for pairs of clocks the difference of their offsets, and its error.

    The difference is the median over the collectives. It is certain that each rank left after each other one had
    entered, which bounds the difference from both sides; the error is the distance to the farther bound.
    """
    differences: defaultdict[tuple[Clock, Clock], list[float]] = defaultdict(list)
    low: dict[tuple[Clock, Clock], float] = {}
    high: dict[tuple[Clock, Clock], float] = {}
    for visits in collectives:
        spans: dict[Clock, Visit] = {}  # of each clock: when its last rank entered, and its first one left
        for visit in visits:
            known = spans.get(visit.clock, visit)
            spans[visit.clock] = Visit(visit.clock, max(known.entered, visit.entered), min(known.left, visit.left))
        one, *others = spans.values()
        for other in others:
            pair = one.clock, other.clock
            differences[pair].append(one.left - other.left)
            low[pair] = max(low.get(pair, -math.inf), one.entered - other.left)
            high[pair] = min(high.get(pair, math.inf), one.left - other.entered)
    found = {}
    for pair, each in differences.items():
        difference = median(each)
        error = max(abs(difference - low[pair]), abs(high[pair] - difference))
        found[pair], found[pair[1], pair[0]] = (difference, error), (-difference, error)
    return found
