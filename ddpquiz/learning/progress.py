"""What a learner has done, kept in a file: every write to the log, and every question to it."""

from __future__ import annotations

import json
import os
import sqlite3
from dataclasses import asdict, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from ddpquiz.errors import UserError
from ddpquiz.learning.card_states import State
from ddpquiz.learning.database import FILE, connect, mendable, transaction
from ddpquiz.learning.log_rows import COLUMNS, KEPT, MOMENT, ORDER, Receipt, Row, add, find, row_of, weights_of
from ddpquiz.learning.schedule import Grade, Memory, Weights, study_day

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from ddpquiz.learning.log_rows import PointRow

_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"  # of one width, so that the order of texts is the order of times
_NAMED = "WHERE l.device = ? AND l.sequence = ?"
_PAUSE = 120_000  # milliseconds after which somebody is thought to be elsewhere
_CLASH = (
    "Row {row.sequence} of machine {row.device} is another one here, so none was taken in: one of the two data "
    "folders is a copy of the other that went its own way. Import it into an empty folder: set DDPQUIZ_HOME."
)


class Progress:
    """The progress kept in a folder. Each method that writes is one transaction, on the disk when it returns.

    Raises UserError for whatever is wrong with the file, the folder or the disk. `at` is a moment in the learner's own
    time zone, which decides the study day.
    """

    def __init__(self, home: Path) -> None:
        self.path = home / FILE
        self._database = connect(home)
        self._state = State(self._database)
        with self._mendable():
            self._device = self._own_device()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def review(self, card: str, grade: Grade, at: datetime, took: timedelta) -> Receipt:
        """Keep a review of a card."""
        return self._append(Row("review", card, *_when(at), took=_milliseconds(took), grade=int(grade)))

    def answer(
        self,
        question: str,
        credit: float,
        at: datetime,
        *,
        took: timedelta,
        given: str,
        level: str,
        chance: float,
        calls: str | None = None,
        retry: bool = False,
        confidence: float | None = None,
    ) -> Receipt:
        """Keep an answer to a question, and make the card that it calls due."""
        row = Row("answer", question, *_when(at), took=_milliseconds(took), credit=credit, chance=chance, level=level)
        return self._append(replace(row, given=given, calls=calls, retry=retry, confidence=confidence))

    def explain(
        self,
        prompt: str,
        points: Sequence[PointRow],
        at: datetime,
        *,
        took: timedelta,
        given: str,
        instead_of: Receipt | None = None,
    ) -> Receipt:
        """Keep an explanation in the learner's own words; it is worth the share of points that were made.

        One that it takes the place of is undone in the same transaction.
        """
        row = Row("explanation", prompt, *_when(at), took=_milliseconds(took), given=given)
        credit = sum(point.made for point in points) / len(points)
        told = json.dumps([asdict(point) for point in points], ensure_ascii=False)
        undoing = [self._undoing(instead_of, at)] if instead_of else []
        return self._append(*undoing, replace(row, credit=credit, points=told))

    def flag(self, item: str, note: str, at: datetime) -> Receipt:
        """Keep a complaint about an item."""
        return self._append(Row("flag", item, *_when(at), given=note))

    def suspend(self, item: str, at: datetime) -> Receipt:
        """Hide an item until it is restored."""
        return self._append(Row("suspend", item, *_when(at)))

    def bury(self, item: str, at: datetime) -> Receipt:
        """Hide an item for the rest of this study day."""
        return self._append(Row("bury", item, *_when(at)))

    def restore(self, item: str, at: datetime) -> bool:
        """Bring back what was suspended or buried, on whatever machine; return whether it was."""
        found = [row for row in self._hiding(study_day(at)) if row.item == item]
        for row in found:
            self.undo(row.receipt, at)
        return bool(found)

    def has_called(self, item: str, day: date) -> bool:
        """Whether a wrong answer to a question has made a card due on a day."""
        which = f"WHERE l.kind = 'answer' AND l.item = ? AND l.day = ? AND l.calls IS NOT NULL AND {KEPT}"
        return bool(self._rows(which, item, str(day)))

    def hidden(self, day: date) -> frozenset[str]:
        """Return the items that are not to be asked on a day: suspended ones, and those buried on that day."""
        return frozenset(row.item for row in self._hiding(day))

    def _hiding(self, day: date) -> list[Row]:
        buried = self._rows(f"WHERE l.kind = 'bury' AND l.day >= ? AND {KEPT}", str(day))
        return [*self.kept("suspend"), *buried]

    def undo(self, receipt: Receipt, at: datetime) -> Receipt:
        """Undo a row: it stays in the log and counts no more."""
        return self._append(self._undoing(receipt, at))

    def _undoing(self, receipt: Receipt, at: datetime) -> Row:
        (row,) = self._rows(_NAMED, *receipt)
        undo = Row("undo", row.item, *_when(at), calls=row.calls)
        return replace(undo, undone_device=receipt.device, undone_sequence=receipt.sequence)

    def memories(self, concept: str | None = None) -> dict[str, Memory]:
        """Return what is known of each card that was reviewed or called, of one concept or of all."""
        with self._mendable():
            return self._state.memories(concept)

    def grades(self, day: date) -> dict[str, tuple[Grade, ...]]:
        """Return the grades of each card that was reviewed on a study day, oldest first."""
        found: dict[str, tuple[Grade, ...]] = {}
        since = str(day - timedelta(days=2))  # by UTC, a study day may begin more than a day early
        for row in self._rows(
            f"WHERE l.kind = 'review' AND l.at >= ? AND l.day = ? AND {KEPT} {ORDER}", since, str(day)
        ):
            found[row.item] = (*found.get(row.item, ()), Grade(row.grade or 0))
        return found

    def last_answers(self) -> list[Row]:
        """Return the answer to each question that strength depends on: the first one of the last day on which it came.

        Once it was given, the solution was in sight. Retries do not count.
        """
        which = f"WHERE l.kind = 'answer' AND NOT l.retry AND {KEPT} GROUP BY l.item, l.day"
        firsts = f"SELECT {COLUMNS}, min({MOMENT}) FROM log AS l {which}"  # noqa: S608  SQLite takes that row's columns
        query = f"SELECT {COLUMNS}, max(l.day) FROM ({firsts}) AS l GROUP BY l.item"  # noqa: S608
        with self._mendable():
            return [row_of(found[:-1]) for found in self._database.execute(query)]

    def kept(self, *kinds: str) -> list[Row]:
        """Return the rows of some kinds that were not undone, oldest first."""
        return self._rows(f"WHERE l.kind IN ({', '.join('?' * len(kinds))}) AND {KEPT} {ORDER}", *kinds)

    def days(self) -> list[tuple[str, int, int]]:
        """Return each study day with how much was done on it, and for how many milliseconds; long pauses are cut."""
        # A plus before `kind`, here and below, makes SQLite read the log from end to end, which is faster by far than
        # most of it by an index
        took = f"sum(min(coalesce(l.took, 0), {_PAUSE}))"
        which = f"WHERE +l.kind IN ('review', 'answer', 'explanation') AND {KEPT} GROUP BY l.day ORDER BY l.day"
        return self._select(f"SELECT l.day, count(*), {took} FROM log AS l {which}")  # noqa: S608

    def first_grades(self) -> Iterator[tuple[str, str, int]]:
        """Yield for each card, and each day on which it was reviewed in order, the day and the first grade of it."""
        first = "SELECT l.item, l.day, l.grade, min(l.at) FROM log AS l "  # SQLite takes the grade of that row
        which = f"WHERE +l.kind = 'review' AND {KEPT} GROUP BY l.item, l.day ORDER BY l.item, l.day"
        with self._mendable():
            yield from (found[:3] for found in self._database.execute(first + which))

    def sureness(self) -> list[tuple[float, int, int]]:
        """Return for each confidence how many answers were given with it, and how many were right."""
        which = f"WHERE l.kind = 'answer' AND l.confidence IS NOT NULL AND NOT l.retry AND {KEPT}"
        return self._select(
            f"SELECT l.confidence, count(*), sum(l.credit > 0) FROM log AS l {which} GROUP BY 1 ORDER BY 1"  # noqa: S608
        )

    def wrong(self) -> list[tuple[str, str, int]]:
        """Return what was answered wrong: the question, what was given, and how often."""
        which = f"WHERE l.kind = 'answer' AND l.credit = 0 AND l.given != '' AND {KEPT}"
        return self._select(
            f"SELECT l.item, l.given, count(*) FROM log AS l {which} GROUP BY l.item, l.given ORDER BY max(l.at)"  # noqa: S608
        )

    def rows(self) -> int:
        """Return how many rows the log has."""
        with self._mendable():
            return int(self._database.execute("SELECT count(*) FROM log").fetchone()[0])

    def log(self) -> list[Row]:
        """Return every row, as it is kept."""
        return self._rows(ORDER)

    def weights(self) -> Weights:
        """Return the weights in use: those of FSRS-6 when none were fitted."""
        with self._mendable():
            newest = "SELECT parameters, retention FROM weights ORDER BY since DESC, version LIMIT 1"
            row = self._database.execute(newest).fetchone()
        return weights_of(*row) if row else Weights()

    def use(self, weights: Weights, at: datetime) -> None:
        """Schedule by these weights from now on; what was scheduled before stays."""
        with self._mendable(), transaction(self._database):
            newest = self._database.execute("SELECT max(since) FROM weights WHERE since != ''").fetchone()[0]
            since = max(_utc(at), _just_after(newest)) if newest else _utc(at)  # the clock may have been set back
            self._add_weights(weights, since)
            self._database.execute("UPDATE weights SET since = ? WHERE version = ?", (since, weights.version))

    def columns(self) -> list[str]:
        """Return the names of what a row of the log holds, in the order in which the file has them."""
        return [name for (name,) in self._select("SELECT name FROM pragma_table_info('log') ORDER BY cid")]

    def used(self) -> dict[Weights, str]:
        """Return every set of weights that the log names, and since when each is in use."""
        with self._mendable():
            rows = self._database.execute("SELECT parameters, retention, since FROM weights ORDER BY since, version")
            return {weights_of(parameters, retention): since for parameters, retention, since in rows.fetchall()}

    def merge(self, rows: Iterable[Row], weights: Mapping[Weights, str]) -> int:
        """Take in the log of another machine, whole or not at all, and return how many rows were new.

        The weights that were put to use last, on whatever machine, are in use afterwards. Raises UserError when the
        rows contradict those that are here or each other.
        """
        added = 0
        since = "UPDATE weights SET since = max(since, ?) WHERE version = ?"
        try:
            with self._mendable(), transaction(self._database):
                for each, used in weights.items():
                    self._add_weights(each, used)
                    self._database.execute(since, (used, each.version))
                for row in rows:
                    here = next(find(self._database, _NAMED, *row.receipt), None)
                    if here is None:
                        add(self._database, row)
                        added += 1
                    elif here != row:
                        raise UserError(_CLASH.format(row=row))
                if added:
                    self._state.rebuild()
        except sqlite3.IntegrityError as error:
            raise UserError(f"These rows do not hold together ({error}), so none was taken in.") from None
        return added

    def rebuild(self) -> None:
        """Derive the state of every card from the log again."""
        with self._mendable(), transaction(self._database):
            self._state.rebuild()

    def _append(self, *rows: Row) -> Receipt:
        """Write rows and what follows from them, in one transaction; return the name of the last."""
        with self._mendable(), transaction(self._database):
            weights = self.weights()
            self._add_weights(weights, "")
            last = "SELECT coalesce(max(sequence), 0) FROM log WHERE device = ?"
            before = self._database.execute(last, (self._device,)).fetchone()[0]
            written = [
                replace(row, device=self._device, sequence=number, weights=weights.version)
                for number, row in enumerate(rows, before + 1)
            ]
            for row in written:
                add(self._database, row)
                self._state.derive(row.item)
                if row.calls:
                    self._state.derive(row.calls)
        return written[-1].receipt

    def _add_weights(self, weights: Weights, since: str) -> None:
        values = (weights.version, since, weights.retention, json.dumps(weights.parameters))
        insert = "INSERT OR IGNORE INTO weights (version, since, retention, parameters) VALUES (?, ?, ?, ?)"
        self._database.execute(insert, values)

    def _own_device(self) -> str:
        """Return the name of this machine in the log, made up at the first start."""
        if not (found := self._database.execute("SELECT id FROM device").fetchone()):
            make = "INSERT INTO device (id) SELECT ? WHERE NOT EXISTS (SELECT * FROM device)"  # another may be as new
            self._database.execute(make, (os.urandom(6).hex(),))
            found = self._database.execute("SELECT id FROM device").fetchone()
        return str(found[0])

    def _select(self, query: str, *values: object) -> list[Any]:
        with self._mendable():
            return self._database.execute(query, values).fetchall()

    def _rows(self, where: str, *values: object) -> list[Row]:
        with self._mendable():
            return list(find(self._database, where, *values))

    def _mendable(self) -> AbstractContextManager[None]:
        return mendable(self.path)


def _when(at: datetime) -> tuple[str, str]:
    """Return a moment as the log keeps it, in UTC, and its study day."""
    return _utc(at), str(study_day(at))


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).strftime(_TIME)


def _just_after(at: str) -> str:
    return (datetime.strptime(at, _TIME).replace(tzinfo=UTC) + timedelta(microseconds=1)).strftime(_TIME)


def _milliseconds(took: timedelta) -> int:
    return round(took.total_seconds() * 1000)
