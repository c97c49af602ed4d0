"""The rows of the log, and how they are written to SQLite and read back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ddpquiz.errors import UserError
from ddpquiz.learning.schedule import Weights

if TYPE_CHECKING:
    import sqlite3


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
    """A point of a rubric: whether it was ticked beforehand, and whether the learner changed that."""

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
    the question was answered before in the same sitting; `confidence` (0 to 1) is how sure the learner was.
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
_FIELDS = tuple(STORED_NAMES.values())
FIRST_YEAR, LAST_YEAR = 1970, 2199  # even a wrong clock stays between these; other years were not written by a clock
LONGEST = 1_000_000  # characters of a text
UNWRITABLE = re.compile("[\0\ud800-\udfff]")  # what no text holds: JSON, SQLite or another program would lose it
_RETRY = _FIELDS.index("retry")  # the only one that SQLite holds in another form
_INTO = f"INTO log ({', '.join(_FIELDS)}) VALUES ({', '.join('?' * len(_FIELDS))})"

# Pieces of queries in which `l` is the log
COLUMNS = ", ".join("l." + name for name in _FIELDS)
_IS_UNDONE = "EXISTS (SELECT 1 FROM log AS u WHERE u.undone_device = l.device AND u.undone_sequence = l.sequence)"
_IS_DAY = f"(l.day BETWEEN '{FIRST_YEAR}' AND '{LAST_YEAR + 1}' AND date(l.day, '+0 days') IS l.day)"
_IS_ASCII = "l.device NOT GLOB '*[^ -~]*'"  # so that an undo can name the row
# The rows that count. An older version or another program may have written rows that mean nothing here: without a day,
# about what is not an item, or under a name that no device has. They stay in the log and in exports, and everything
# else is as if they were not there.
COUNTS = f"l.item GLOB '?*/?*' AND {_IS_ASCII} AND {_IS_DAY} AND NOT {_IS_UNDONE}"
ORDER = "ORDER BY l.at, l.device, l.sequence"  # the same on every machine that holds these rows
MOMENT = "l.at || l.device || printf('%012d', l.sequence)"  # the same order, as one value


def add(database: sqlite3.Connection, row: Row) -> None:
    """Write a row. Raises UserError if its text is too long."""
    if row.given is not None:
        if len(row.given) > LONGEST:
            raise UserError(
                f"A text can have {LONGEST:,} characters; this one has {len(row.given):,}, so it was not saved."
            )
        row = replace(row, given=UNWRITABLE.sub("\ufffd", row.given))
    database.execute(f"INSERT {_INTO}", astuple(row))


def find(database: sqlite3.Connection, where: str, *values: object) -> Iterator[Row]:
    """Yield the rows that the end of a query selects and orders."""
    return map(row_of, database.execute(f"SELECT {COLUMNS} FROM log AS l {where}", values))  # noqa: S608  names of our own


def row_of(columns: tuple[Any, ...]) -> Row:
    """Return the row of the values that SQLite returns for `COLUMNS`."""
    values = list(columns)
    values[_RETRY] = bool(values[_RETRY])
    return Row(*values)


def moment(text: str) -> datetime | None:
    """Return a moment of the log; None for a text that no clock wrote."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    is_written = found.isoformat(timespec="microseconds").replace("+00:00", "Z") == text
    return found if is_written and found.tzinfo and FIRST_YEAR <= found.year <= LAST_YEAR else None


def find_weights(database: sqlite3.Connection) -> dict[str, tuple[Weights, str]]:
    """Return each set of weights by its version, with the time from which it is in use, oldest first.

    A set that cannot be read is left out; what was reviewed with it is scheduled with the usual weights.
    """
    found = {}
    query = "SELECT version, parameters, retention, since FROM weights ORDER BY since, version"
    for version, parameters, retention, since in database.execute(query):
        try:
            weights = Weights(tuple(json.loads(parameters)), retention)
        except (ValueError, TypeError, RecursionError, UserError):
            continue
        if weights.version == version:
            found[version] = (weights, since if moment(since) else "")
    return found
