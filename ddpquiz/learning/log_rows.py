"""The rows of the log: what each kind says, and under which names its fields are stored."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, NamedTuple, TypeVar

_Saved = TypeVar("_Saved")


class Receipt(NamedTuple):
    """Identifies a row of the log."""

    device: str
    sequence: int


class Change(NamedTuple, Generic[_Saved]):
    """What a step of a sitting saved, and what it took back, for the log."""

    added: _Saved | None = None
    removed: _Saved | None = None


UNCHANGED: Change[Any] = Change()


@dataclass(frozen=True, slots=True)
class PointRow:
    """A point of a rubric: whether it was ticked beforehand, and whether the learner changed that.

    A program that the learner named ticks beforehand; 0.1 did so by itself, where words of the point occurred.
    """

    say: str
    matched: bool
    overruled: bool = False

    @property
    def made(self) -> bool:
        return self.matched != self.overruled


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRow:
    """An answer to a question, as it is saved.

    `chance` is the chance of a blind guess; `made_due_card` is the card that the answer makes due; `retry` is true if
    the answer does not count: the question was answered before in the same sitting, or a step of a lesson asked it;
    `confidence` (0 to 1) is how sure the learner was.
    """

    item: str
    credit: float
    took: timedelta
    given: str
    level: str
    chance: float
    made_due_card: str | None = None
    retry: bool = False
    confidence: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplanationRow:
    """An explanation in the learner's own words, as it is saved; its credit is the share of points that were made."""

    item: str
    took: timedelta
    given: str
    points: Sequence[PointRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabRow:
    """What happened with a lab, as it is saved: it was passed with these stars, or its solution was seen.

    `item` is concept/lab.
    """

    item: str
    passed: bool
    stars: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the log: something that a learner did, or its undo.

    `at` is in UTC, `took` in milliseconds. `points` are those of an explanation, as JSON (see `PointRow`). For the
    values of an answer see `AnswerRow`.
    """

    kind: str  # review, answer, explanation, flag, suspend, bury, lab, stage or undo
    item: str
    at: str
    day: str
    device: str = ""
    sequence: int = 0
    weights: str = ""
    took: int | None = None
    grade: int | None = None
    credit: float | None = None
    chance: float | None = None
    level: str | None = None
    given: str | None = None
    made_due_card: str | None = None
    retry: bool = False
    undone_device: str | None = None
    undone_sequence: int | None = None
    confidence: float | None = None
    points: str | None = None

    @property
    def receipt(self) -> Receipt:
        return Receipt(self.device, self.sequence)


# The column of each field, which is also its key in an export; files of 0.1 hold one under an older name
STORED_NAMES = {name: {"made_due_card": "calls"}.get(name, name) for name in Row.__dataclass_fields__}
FIRST_YEAR, LAST_YEAR = 1970, 2199  # even a wrong clock stays between these; other years were not written by a clock
LONGEST = 1_000_000  # characters of a text
MOST_ROWS = 10**9  # of one device
UNWRITABLE = re.compile("[\0\ud800-\udfff]")  # what no text holds: JSON, SQLite or another program would lose it


def moment(text: str) -> datetime | None:
    """A moment of the log; None for a text that no clock wrote."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    is_written = found.isoformat(timespec="microseconds").replace("+00:00", "Z") == text
    return found if is_written and found.tzinfo and FIRST_YEAR <= found.year <= LAST_YEAR else None
