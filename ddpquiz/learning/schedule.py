"""When a card comes back: FSRS in study days, with reproducible fuzz."""

from __future__ import annotations

import math
import random
import zlib
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING

from ddpquiz.errors import UserError

if TYPE_CHECKING:  # fsrs is imported when the first card is scheduled; no first screen waits for it
    from collections.abc import Mapping

    from fsrs import Card as FsrsCard
    from fsrs import Scheduler

NEW_A_DAY = 10  # cards, unless another number is asked for
_TURN = timedelta(hours=4)  # the study day turns at four in the morning, local time
_RETENTION = (0.7, 0.97)  # below, most cards are forgotten; above, they come back all the time
_DIGITS = 6  # of stability and difficulty, so that rounding on another machine makes no difference
_FUZZ_FROM = 2.5  # days; shorter intervals are exact
_FUZZ = (
    (2.5, 7.0, 0.15),
    (7.0, 20.0, 0.1),
    (20.0, math.inf, 0.05),
)  # from day, to day, spread as a share of the days between

FSRS_6 = (  # the weights that FSRS-6 starts from, copied here because the log names them
    *(0.212, 1.2931, 2.3065, 8.2956, 6.4133, 0.8334, 3.0194, 0.001, 1.8722, 0.1666, 0.796),
    *(1.4835, 0.0614, 0.2629, 1.6483, 0.6014, 1.8729, 0.5425, 0.0912, 0.0658, 0.1542),
)


class Grade(IntEnum):
    """How well a card was recalled; HARD counts as recalled."""

    AGAIN = 1
    HARD = 2
    GOOD = 3
    EASY = 4

    @property
    def forgot(self) -> bool:
        return self is Grade.AGAIN


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of a card, derived from the log; `stability` (days) is None before the first review."""

    due: date
    stability: float | None = None
    difficulty: float | None = None
    first: date | None = None
    last: date | None = None
    reps: int = 0
    lapses: int = 0  # times forgotten after it had been learned on an earlier day


@dataclass(frozen=True)
class Weights:
    """The parameters of FSRS; `version` is a hash of them, so it means the same weights on every machine."""

    parameters: tuple[float, ...] = FSRS_6
    retention: float = 0.9  # the share of cards that should be recalled on the day they are due

    def __post_init__(self) -> None:
        low, high = _RETENTION
        if not low <= self.retention <= high:
            raise UserError(f"Retention must lie between {low} and {high}; {self.retention} does not.")
        if self.parameters == FSRS_6:
            return
        from fsrs import Scheduler

        try:
            Scheduler(self.parameters)
        except ValueError as error:
            raise UserError(f"These are not FSRS-6 weights: {error}") from None

    @cached_property
    def version(self) -> str:
        """The name of these weights in the log."""
        return f"{zlib.crc32(repr((self.parameters, self.retention)).encode()):08x}"

    @property
    def stretch(self) -> float:
        """How long an interval is, compared with one at a retention of 90%."""
        decay = -self.parameters[20]
        return float((self.retention ** (1 / decay) - 1) / (0.9 ** (1 / decay) - 1))


class Schedule:
    """FSRS with one set of weights. A day is a study day; two reviews on one day are short-term learning."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights

    @cached_property
    def _fsrs(self) -> Scheduler:
        from fsrs import Scheduler

        return Scheduler(self.weights.parameters, self.weights.retention, (), (), enable_fuzzing=False)

    def review(self, key: str, memory: Memory | None, grade: Grade, day: date) -> Memory:
        """The memory of a card after a review. A forgotten card stays due on the same day.

        The fuzz is seeded by the card, the day and the number of earlier reviews, so the buttons show the real interval
        and a rebuild gives the same state.
        """
        from fsrs import Rating

        memory = memory or Memory(due=day)
        day = max(day, memory.last or day)  # the clock was set back, or the learner flew west
        card, _ = self._fsrs.review_card(_to_fsrs(memory), Rating(int(grade)), _midnight(day))
        interval = 0 if grade.forgot else _fuzzed((card.due.date() - day).days, f"{key} {day} {memory.reps}")
        learned_before = memory.last is not None and memory.last < day
        return Memory(
            due=day + timedelta(days=interval),
            stability=round(card.stability or 0.0, _DIGITS),
            difficulty=round(card.difficulty or 0.0, _DIGITS),
            first=memory.first or day,
            last=day,
            reps=memory.reps + 1,
            lapses=memory.lapses + (grade is Grade.AGAIN and learned_before),
        )

    def preview(self, key: str, memory: Memory | None, day: date) -> dict[Grade, int]:
        """The days until the card comes back, for each grade; 0 is in this sitting."""
        return {grade: (self.review(key, memory, grade, day).due - day).days for grade in Grade}

    def recall(self, memory: Memory, day: date) -> float:
        """The chance that a card is recalled on a day; 0 for one that was never reviewed."""
        return float(self._fsrs.get_card_retrievability(_to_fsrs(memory), _midnight(day)))


def study_day(at: datetime) -> date:
    """The study day of a moment in the time zone of that moment."""
    return (at.replace(tzinfo=None) - _TURN).date()


def begun(memories: Mapping[str, Memory], day: date) -> int:
    """How many new cards were begun on a day."""
    return sum(memory.first == day for memory in memories.values())


def new_left(memories: Mapping[str, Memory], day: date, a_day: int = NEW_A_DAY) -> int:
    """How many new cards may still be learned today."""
    return max(0, a_day - begun(memories, day))


def make_due(memory: Memory | None, day: date) -> Memory:
    """The memory of a card that is made due today, as after a wrong answer."""
    return replace(memory, due=min(memory.due, day)) if memory else Memory(due=day)


def _to_fsrs(memory: Memory) -> FsrsCard:
    from fsrs import Card as FsrsCard
    from fsrs import State

    due = _midnight(memory.due)
    if memory.stability is None or memory.last is None:
        return FsrsCard(card_id=0, due=due)  # without an id, py-fsrs sleeps a millisecond to make one
    return FsrsCard(0, State.Review, None, memory.stability, memory.difficulty, due, _midnight(memory.last))


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)  # py-fsrs accepts only this time zone


def _fuzzed(interval: int, seed: str) -> int:
    """Spread an interval a little, so that cards learned together come due on different days; the order stays."""
    if interval < _FUZZ_FROM:
        return interval
    spread = 1.0 + sum(share * max(min(interval, end) - start, 0.0) for start, end, share in _FUZZ)
    low, high = max(2, round(interval - spread)), round(interval + spread)
    return low + int(random.Random(seed).random() * (high - low + 1))  # noqa: S311  not for security
