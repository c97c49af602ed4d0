"""A learner's progress: a log in SQLite to which every write is appended, and all that is derived from it.

The state of each card follows from the log, and is stored beside it so that a start is fast.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, astuple, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from ddpquiz.errors import UserError
from ddpquiz.learning.database import (
    FILE,
    FOLDER,
    Backup,
    connect,
    reported_faults,
    save_daily_backup,
    save_import_backup,
    transaction,
)
from ddpquiz.learning.lab_passes import PASSED, SEEN, LabStanding, lab_evidence, lab_standings
from ddpquiz.learning.log_rows import (
    FIRST_YEAR,
    LAST_YEAR,
    LONGEST,
    MOST_ROWS,
    STORED_NAMES,
    UNWRITABLE,
    AnswerRow,
    ExplanationRow,
    LabRow,
    Receipt,
    Row,
    moment,
)
from ddpquiz.learning.schedule import Grade, Memory, Schedule, Weights, make_due, study_day

_PAUSE = 120_000  # milliseconds; the time of a longer answer is counted only up to this
_UNMOVED: Mapping[str, str] = MappingProxyType({})
STEP = "step-"  # what the name of a step of a lesson begins with
_NOT_OF_ITEMS = ("lab", "stage")  # kinds of rows that name something else

# Rows of the log in SQLite: how they are written, and which count.

_FIELDS = tuple(STORED_NAMES.values())
_RETRY = _FIELDS.index("retry")  # the only one that SQLite holds in another form
_INTO = f"INTO log ({', '.join(_FIELDS)}) VALUES ({', '.join('?' * len(_FIELDS))})"

# Pieces of queries in which `l` is the log
_COLUMNS = ", ".join("l." + name for name in _FIELDS)
_IS_UNDONE = "EXISTS (SELECT 1 FROM log AS u WHERE u.undone_device = l.device AND u.undone_sequence = l.sequence)"
_IS_DAY = f"(l.day BETWEEN '{FIRST_YEAR}' AND '{LAST_YEAR + 1}' AND date(l.day, '+0 days') IS l.day)"
_IS_ASCII = "l.device NOT GLOB '*[^ -~]*'"  # so that an undo can name the row
# The rows that count. An older version or another program may have written rows that mean nothing here: without a day,
# about what is not an item, or under a name that no device has. They stay in the log and in exports, and everything
# else is as if they were not there.
_COUNTS = f"l.item GLOB '?*/?*' AND {_IS_ASCII} AND {_IS_DAY} AND NOT {_IS_UNDONE}"
_ORDER = "ORDER BY l.at, l.device, l.sequence"  # the same on every machine that holds these rows
_MOMENT = "l.at || l.device || printf('%012d', l.sequence)"  # the same order, as one value


class LogReader:
    """The log in a data folder, for reading. Raises UserError for faults of the file, the folder or the disk.

    `moved` has earlier keys of items and their keys now: rows under an earlier key are read as rows of the item now.
    """

    def __init__(self, home: Path, moved: Mapping[str, str] = _UNMOVED) -> None:
        self.path = home / FILE
        self._database = connect(home)
        self._keys = _ItemKeys(self._database, moved)
        self._states = _CardStates(self._database, self._keys)

    def memories(self, concept: str | None = None) -> dict[str, Memory]:
        """The memory of each card that was reviewed or made due, of one concept or of all."""
        with reported_faults(self.path):
            if earlier := self._states.under_earlier_keys():
                with transaction(self._database):
                    self._states.move(earlier)
            try:
                return self._states.memories(concept)
            except ValueError:  # something else changed the states; they are derived from the log
                with transaction(self._database):
                    self._states.rebuild()
                return self._states.memories(concept)

    def entries(self, *kinds: str) -> list[Row]:
        """The rows of some kinds that count, oldest first."""
        return self._rows(f"WHERE l.kind IN ({', '.join('?' * len(kinds))}) AND {_COUNTS} {_ORDER}", *kinds)

    def log(self) -> list[Row]:
        """Every row as it was written, oldest first, also undos, what was undone, and what means nothing."""
        with reported_faults(self.path):
            return list(_find(self._database, _ORDER))

    def count(self) -> int:
        return int(self._select("SELECT count(*) FROM log")[0][0])

    def concepts(self) -> frozenset[str]:
        """The concepts of which the log has a row of any kind."""
        keys = (  # one after the other in the index: they are far fewer than the rows
            "WITH RECURSIVE each(item) AS (SELECT min(item) FROM log UNION ALL SELECT"
            " (SELECT min(item) FROM log WHERE item > each.item) FROM each WHERE each.item IS NOT NULL)"
            " SELECT item FROM each WHERE item IS NOT NULL"
        )
        return frozenset(self._keys.key_now(key).rpartition("/")[0] for (key,) in self._select(keys))

    def has_made_due(self, item: str, day: date) -> bool:
        """Whether a wrong answer to a question made a card due on a day."""
        return any(row.day == str(day) and row.made_due_card for row in self.answers_to(item))

    def answers_to(self, item: str) -> list[Row]:
        """The answers to a question, oldest first."""
        keys = self._keys.every(item)
        named = f"l.item IN ({', '.join('?' * len(keys))})"
        return self._rows(f"WHERE l.kind = 'answer' AND {named} AND {_COUNTS} {_ORDER}", *keys)

    def hidden(self, day: date) -> frozenset[str]:
        """The items that are not asked on a day: those hidden for good, and those hidden on that day."""
        return frozenset(row.item for row in self._hiding(day))

    def _hiding(self, day: date) -> list[Row]:
        buried = self._rows(f"WHERE l.kind = 'bury' AND l.day >= ? AND {_COUNTS}", str(day))
        return [*self.entries("suspend"), *buried]

    def grades(self, day: date) -> dict[str, tuple[Grade, ...]]:
        """The grades of each card that was reviewed on a study day, oldest first."""
        found: dict[str, tuple[Grade, ...]] = {}
        since = str(day - timedelta(days=2))  # by UTC, a study day may begin more than a day early
        which = f"WHERE l.kind = 'review' AND l.at >= ? AND l.day = ? AND {_COUNTS} {_ORDER}"
        for row in self._rows(which, since, str(day)):
            found[row.item] = (*found.get(row.item, ()), Grade(row.grade or 0))
        return found

    def last_answers(self) -> list[Row]:
        """The answer to each question that strength depends on: the first of the last day on which it was asked.

        After the first answer the solution was shown. Retries do not count. The labs that were passed come last.
        """
        which = f"WHERE l.kind = 'answer' AND NOT l.retry AND {_COUNTS} GROUP BY {self._item}, l.day"
        firsts = f"SELECT {_COLUMNS}, min({_MOMENT}) FROM log AS l {which}"  # noqa: S608  SQLite returns that row's columns
        last = self._select(f"SELECT {_COLUMNS}, max(l.day) FROM ({firsts}) AS l GROUP BY {self._item}")  # noqa: S608
        return [*(self._keys.now(_row_of(found[:-1])) for found in last), *lab_evidence(self.entries("lab"))]

    def labs(self) -> dict[str, LabStanding]:
        """The standing of each lab that was passed or whose solution was seen, by its name."""
        return lab_standings(self.entries("lab"))

    def days(self) -> list[tuple[str, int, int]]:
        """Each study day, how much was done on it, and the milliseconds of that; long pauses are cut.

        What is done is a review, an answer, an explanation, a lab, or a step of a lesson.
        """
        # A plus before `kind`, here and below, makes SQLite read the log from end to end, which is much faster than
        # reading most of it through an index
        took = f"sum(max(0, min(coalesce(l.took, 0), {_PAUSE})))"  # it is negative if the clock was set back
        kinds = "('review', 'answer', 'explanation', 'lab')"
        steps = f"l.kind = 'stage' AND l.given = 'done' AND l.item GLOB '*/{STEP}*'"
        which = f"WHERE (+l.kind IN {kinds} OR ({steps})) AND {_COUNTS} GROUP BY l.day ORDER BY l.day"
        return self._select(f"SELECT l.day, count(*), {took} FROM log AS l {which}")  # noqa: S608

    def first_grades(self) -> Iterator[tuple[str, str, int]]:
        """Yield the item, day and first grade of each card on each day on which it was reviewed, in that order."""
        first = f"SELECT {self._item}, l.day, l.grade, min(l.at) FROM log AS l "  # noqa: S608  the grade of that row
        which = f"WHERE +l.kind = 'review' AND {_COUNTS} GROUP BY 1, 2 ORDER BY 1, 2"
        with reported_faults(self.path):
            yield from (found[:3] for found in self._database.execute(first + which))

    def confidences(self) -> list[tuple[float, int, int]]:
        """Return for each confidence how many answers had it, and how many of them were right."""
        which = f"WHERE l.kind = 'answer' AND l.confidence IS NOT NULL AND NOT l.retry AND {_COUNTS}"
        return self._select(
            f"SELECT l.confidence, count(*), sum(l.credit > 0) FROM log AS l {which} GROUP BY 1 ORDER BY 1"  # noqa: S608
        )

    def wrong(self) -> list[tuple[str, str, int]]:
        """Each wrong answer: the question, the text, and how often it was submitted."""
        which = f"WHERE l.kind = 'answer' AND l.credit = 0 AND l.given != '' AND {_COUNTS}"
        return self._select(
            f"SELECT {self._item}, l.given, count(*) FROM log AS l {which} GROUP BY 1, 2 ORDER BY max(l.at)"  # noqa: S608
        )

    def weights(self) -> Weights:
        """The weights in use: those of FSRS-6 when none were fitted."""
        known = self._weights()
        return max(known.values(), key=lambda each: each[1])[0] if known else Weights()

    def all_weights(self) -> dict[Weights, str]:
        """Every set of weights that the log refers to, with the time from which it is in use."""
        return dict(self._weights().values())

    def _weights(self) -> dict[str, tuple[Weights, str]]:
        with reported_faults(self.path):
            return _find_weights(self._database)

    @property
    def _item(self) -> str:
        """The key of the item of a row, now, in a query; the row is one of an item."""
        with reported_faults(self.path):
            return self._keys.in_query()

    def _select(self, query: str, *values: object) -> list[Any]:
        with reported_faults(self.path):
            return self._database.execute(query, values).fetchall()

    def _rows(self, where: str, *values: object) -> list[Row]:
        with reported_faults(self.path):
            return [self._keys.now(row) for row in _find(self._database, where, *values)]


_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"  # of one width, so that the order of texts is the order of times
_UNSAVED = "the last step was not saved"
_NAMED = "WHERE l.device = ? AND l.sequence = ?"
_CLASH = (
    "Row {row.sequence} of device {row.device} differs from the one here, so nothing was imported: one of the two data "
    "folders is a copy of the other, and both have changed since. Import it into an empty folder: set DDPQUIZ_HOME."
)


class ImportResult(NamedTuple):
    """How many rows an import added, and the backup of what was there before; None if nothing changed."""

    added: int
    backup: Backup | None


class Progress(LogReader):
    """The progress in a folder. Each method that writes is one transaction, on the disk when it returns.

    Raises UserError for faults of the file, the folder or the disk. `at` is a moment in the learner's own time zone,
    which decides the study day.
    """

    def __init__(self, home: Path, moved: Mapping[str, str] = _UNMOVED) -> None:
        super().__init__(home, moved)
        self._day = ""  # the study day of the last write
        with reported_faults(self.path):
            self._device = self._own_device()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with suppress(*[UserError] if kind else []):  # the first error is the one to report
            self.close()

    def close(self) -> None:
        """Close the file, after the backup of the day if something was written; UserError if that fails."""
        try:
            if self._day:
                self._back_up()
        finally:
            self._database.close()

    def _back_up(self) -> None:
        home = self.path.parent
        try:
            save_daily_backup(self._database, home, self._day)
        except (OSError, sqlite3.Error) as error:
            raise UserError(
                f"Your answers are saved, but the backup of {self._day} cannot be written to {home / FOLDER} ({error})."
            ) from None

    def review(self, card: str, grade: Grade, at: datetime, took: timedelta) -> Receipt:
        return self._append(Row("review", card, *_when(at), took=_milliseconds(took), grade=int(grade)))

    def answer(self, answer: AnswerRow, at: datetime) -> Receipt:
        """Save an answer to a question, and make the card due that it names."""
        row = Row("answer", answer.item, *_when(at))
        values = {**asdict(answer), "took": _milliseconds(answer.took)}
        return self._append(replace(row, **values))

    def explain(self, written: ExplanationRow, at: datetime, *, instead_of: Receipt | None = None) -> Receipt:
        """Save an explanation; the one that it replaces is undone in the same transaction."""
        row = Row("explanation", written.item, *_when(at), took=_milliseconds(written.took), given=written.given)
        credit = sum(point.made for point in written.points) / len(written.points)
        as_json = json.dumps([asdict(point) for point in written.points], ensure_ascii=False)
        undos = [self._undo_of(instead_of, at)] if instead_of else []
        return self._append(*undos, replace(row, credit=credit, points=as_json))

    def lab(self, done: LabRow, at: datetime) -> Receipt:
        """Save that a lab was passed, or that its solution was seen."""
        given = "\n".join([PASSED if done.passed else SEEN, *done.stars])
        return self._append(Row("lab", done.item, *_when(at), credit=float(done.passed), given=given))

    def stage(self, item: str, state: str, at: datetime, took: timedelta | None = None) -> Receipt:
        """Save that a stage of a guided path was done or skipped; `item` is concept/stage, or that of a step.

        `took` is the time for a step without that for its question, whose answer is saved on its own.
        """
        spent = None if took is None else _milliseconds(took)
        return self._append(Row("stage", item, *_when(at), took=spent, given=state))

    def flag(self, item: str, note: str, at: datetime) -> Receipt:
        """Save a complaint about an item."""
        return self._append(Row("flag", item, *_when(at), given=note))

    def suspend(self, item: str, at: datetime) -> Receipt:
        """Hide an item until it is restored."""
        return self._append(Row("suspend", item, *_when(at)))

    def bury(self, item: str, at: datetime) -> Receipt:
        """Hide an item for the rest of this study day."""
        return self._append(Row("bury", item, *_when(at)))

    def restore(self, item: str, at: datetime) -> bool:
        """Restore an item that was hidden on any device; return whether it was."""
        key = self._keys.key_now(item)
        found = [row for row in self._hiding(study_day(at)) if row.item == key]
        for row in found:
            self.undo(row.receipt, at)
        return bool(found)

    def undo(self, receipt: Receipt, at: datetime) -> Receipt:
        """Undo a row: it stays in the log and no longer counts."""
        return self._append(self._undo_of(receipt, at))

    def _undo_of(self, receipt: Receipt, at: datetime) -> Row:
        with reported_faults(self.path):
            (row,) = _find(self._database, _NAMED, *receipt)  # an undo names the item as the row does
        undo = Row("undo", row.item, *_when(at), made_due_card=row.made_due_card)
        return replace(undo, undone_device=receipt.device, undone_sequence=receipt.sequence)

    def use_weights(self, weights: Weights, at: datetime) -> None:
        """Schedule with these weights from now on; existing due dates stay."""
        self._day = str(study_day(at))
        with reported_faults(self.path, _UNSAVED), transaction(self._database):
            newest = moment(max((since for _, since in self._weights().values()), default=""))
            after = newest + timedelta(microseconds=1) if newest else at
            since = _utc(max(at, after))  # the clock may have been set back
            self._add_weights(weights, since)
            self._database.execute("UPDATE weights SET since = ? WHERE version = ?", (since, weights.version))

    def merge(self, rows: Iterable[Row], weights: Mapping[Weights, str]) -> int:
        """Add the log of another device, whole or not at all, and return how many rows were new.

        The weights that were put into use last, on any device, are used afterwards. Raises UserError if the rows
        contradict those in the log or each other.
        """
        added = 0
        since = "UPDATE weights SET since = ? WHERE version = ? AND since < ?"
        try:
            with reported_faults(self.path, "nothing was imported"), transaction(self._database):
                for each, used in weights.items():
                    self._add_weights(each, used)
                    self._database.execute(since, (used, each.version, used))
                for row in rows:
                    here = next(_find(self._database, _NAMED, *row.receipt), None)
                    if here is None:
                        _add(self._database, row)
                        added += 1
                    elif here != row:
                        raise UserError(_CLASH.format(row=row))
                if added:
                    self._states.rebuild()
        except sqlite3.IntegrityError as error:
            raise UserError(f"These rows contradict each other ({error}), so nothing was imported.") from None
        return added

    def merge_safely(self, rows: Iterable[Row], weights: Mapping[Weights, str], at: datetime) -> ImportResult:
        """Merge after a backup, which is deleted again if nothing changed; raises UserError, also if it fails."""
        home = self.path.parent
        try:
            with reported_faults(self.path, "nothing was imported"):
                backup = save_import_backup(self._database, home, str(study_day(at)))
        except OSError as error:
            raise UserError(
                f"The backup before the import cannot be written to {home / FOLDER} ({error}), so nothing was imported."
            ) from None
        before = self._database.total_changes
        try:
            added = self.merge(rows, weights)
        except UserError:
            backup.path.unlink(missing_ok=True)
            raise
        if self._database.total_changes == before:
            backup.path.unlink(missing_ok=True)
            return ImportResult(added, None)
        return ImportResult(added, backup)

    def rebuild(self) -> None:
        with reported_faults(self.path, _UNSAVED), transaction(self._database):
            self._states.rebuild()

    def _append(self, *rows: Row) -> Receipt:
        """Write rows and the card states derived from them, in one transaction; return the receipt of the last row."""
        with reported_faults(self.path, _UNSAVED), transaction(self._database):
            weights = self.weights()
            self._add_weights(weights, "")
            before = self._last_number()
            if before + len(rows) > MOST_ROWS:  # no import accepts larger numbers
                self._become_another_device()
                before = self._last_number()
            written = [
                replace(row, device=self._device, sequence=number, weights=weights.version)
                for number, row in enumerate(rows, before + 1)
            ]
            for row in written:
                _add(self._database, row)
                self._states.derive(row.item)
                if row.made_due_card:
                    self._states.derive(row.made_due_card)
        self._day = written[-1].day
        return written[-1].receipt

    def _last_number(self) -> int:
        last = "SELECT coalesce(max(sequence), 0) FROM log WHERE device = ?"
        return int(self._database.execute(last, (self._device,)).fetchone()[0])

    def _become_another_device(self) -> None:
        """Number rows from 1 again, under an id that no row has; another sitting may have done so already."""
        self._database.execute("DELETE FROM device WHERE id = ?", (self._device,))
        self._device = self._own_device()

    def _add_weights(self, weights: Weights, since: str) -> None:
        values = (weights.version, since, weights.retention, json.dumps(weights.parameters))
        insert = "INSERT OR IGNORE INTO weights (version, since, retention, parameters) VALUES (?, ?, ?, ?)"
        self._database.execute(insert, values)

    def _own_device(self) -> str:
        """The id of this device in the log; the first start creates it."""
        if not (found := self._database.execute("SELECT id FROM device").fetchone()):
            # another sitting may create it at the same time
            create = "INSERT INTO device (id) SELECT ? WHERE NOT EXISTS (SELECT * FROM device)"
            self._database.execute(create, (os.urandom(6).hex(),))
            found = self._database.execute("SELECT id FROM device").fetchone()
        return str(found[0])


def _when(at: datetime) -> tuple[str, str]:
    """A moment in UTC as the log holds it, and its study day."""
    return _utc(at), str(study_day(at))


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).strftime(_TIME)


def _milliseconds(took: timedelta) -> int:
    return round(took.total_seconds() * 1000)


class _ItemKeys:
    """The keys of items: under which the log may know an item, and which key it has now."""

    def __init__(self, database: sqlite3.Connection, moved: Mapping[str, str]) -> None:
        self._database = database
        self._moved = moved

    def key_now(self, key: str) -> str:
        return self._moved.get(key, key)

    def every(self, key: str) -> tuple[str, ...]:
        """All keys that an item has or had."""
        now = self.key_now(key)
        return (now, *(before for before, after in self._moved.items() if after == now))

    @property
    def earlier(self) -> tuple[str, ...]:
        return tuple(self._moved)

    def now(self, row: Row) -> Row:
        """A row with the keys that its items have now."""
        if not self._moved or row.kind in _NOT_OF_ITEMS:
            return row
        item, card = self.key_now(row.item), row.made_due_card and self.key_now(row.made_due_card)
        return row if (item, card) == (row.item, row.made_due_card) else replace(row, item=item, made_due_card=card)

    def in_query(self) -> str:
        """Return SQL for the key now of the item of a row `l`."""
        which = f"SELECT DISTINCT item FROM log WHERE item IN ({', '.join('?' * len(self._moved))})"  # noqa: S608
        here = [key for (key,) in self._database.execute(which, self.earlier)]  # few learners have any
        cases = " ".join(f"WHEN {_quoted(key)} THEN {_quoted(self.key_now(key))}" for key in here)
        return f"CASE l.item {cases} ELSE l.item END" if here else "l.item"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# The state of each card: derived from the log, and stored beside it so that a start is fast.

_FROM_LOG = "(l.kind = 'review' OR l.kind = 'answer' AND l.calls IS NOT NULL)"  # the rows that change a state
_FROM_CARD = "SELECT item, due, stability, difficulty, first, last, reps, lapses FROM card"
_INTO_CARD = "INTO card (item, due, stability, difficulty, first, last, reps, lapses) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


class _CardStates:
    """The states in a database. The caller makes transactions and reports faults of the file."""

    def __init__(self, database: sqlite3.Connection, keys: _ItemKeys) -> None:
        self._database = database
        self._keys = keys
        self._schedules: dict[str, Schedule] = {}

    def memories(self, concept: str | None = None) -> dict[str, Memory]:
        """The memory of each card that was reviewed or made due, of one concept or of all.

        Raises ValueError if there is a state that no log leads to; `rebuild` mends it.
        """
        # in ASCII, 0 follows /
        where, values = ("WHERE item > ? AND item < ?", (f"{concept}/", f"{concept}0")) if concept else ("", ())
        rows = self._database.execute(f"{_FROM_CARD} {where}", values)
        return {item: _memory(*state) for item, *state in rows}

    def under_earlier_keys(self) -> list[str]:
        """The earlier keys under which there are states, from a time when the cards had these keys."""
        keys = self._keys.earlier
        which = f"SELECT item FROM card WHERE item IN ({', '.join('?' * len(keys))})"  # noqa: S608
        return [item for (item,) in self._database.execute(which, keys)] if keys else []

    def move(self, earlier: Iterable[str]) -> None:
        """Derive the states of the cards that had these keys under their keys now."""
        for key in {self._keys.key_now(key) for key in earlier}:
            self.derive(key)

    def derive(self, card: str) -> None:
        """Derive the state of one card from all its rows, as a rebuild does; they are few."""
        now, keys = self._keys.key_now(card), self._keys.every(card)
        places = ", ".join("?" * len(keys))
        self._database.execute(f"DELETE FROM card WHERE item IN ({places})", keys)  # noqa: S608
        which = f"WHERE (l.item IN ({places}) OR l.calls IN ({places})) AND {_FROM_LOG} AND {_COUNTS} {_ORDER}"
        memories = self._replay(which, *keys, *keys)
        self._save({now: memories[now]} if now in memories else {})

    def rebuild(self) -> None:
        self._database.execute("DELETE FROM card")
        self._save(self._replay(f"WHERE {_FROM_LOG} AND {_COUNTS} {_ORDER}"))

    def _replay(self, where: str, *values: object) -> dict[str, Memory]:
        """The memories after some rows of the log, each scheduled by the weights that were in use."""
        memories: dict[str, Memory] = {}
        for row in _find(self._database, where, *values):
            day = _a_day(row.day)
            if row.kind == "review" and row.grade:
                card, schedule = self._keys.key_now(row.item), self._schedule(row.weights)
                # The days vary a little with the key: those under an earlier key stay what they were
                memories[card] = schedule.review(row.item, memories.get(card), Grade(row.grade), day)
            elif row.made_due_card:
                card = self._keys.key_now(row.made_due_card)
                memories[card] = make_due(memories.get(card), day)
        return memories

    def _save(self, memories: Mapping[str, Memory]) -> None:
        rows = ((item, *(str(x) if isinstance(x, date) else x for x in astuple(m))) for item, m in memories.items())
        self._database.executemany(f"INSERT {_INTO_CARD}", rows)

    def _schedule(self, version: str) -> Schedule:
        if version not in self._schedules:
            weights, _ = _find_weights(self._database).get(version, (Weights(), ""))
            self._schedules[version] = Schedule(weights)
        return self._schedules[version]


def _memory(
    due: str, stability: float | None, difficulty: float | None, first: str | None, last: str | None, *counts: int
) -> Memory:
    """The memory that a row of the table `card` describes. Raises ValueError if it describes none."""
    if stability is None or difficulty is None or first is None or last is None:
        if (stability, difficulty, first, last) != (None, None, None, None):
            raise ValueError
        return Memory(_a_day(due))
    memory = Memory(_a_day(due), stability, difficulty, _a_day(first), _a_day(last), *counts)
    if not (0 < stability < math.inf and 1 <= difficulty <= 10 and _a_day(last).year <= LAST_YEAR):
        raise ValueError
    return memory


@lru_cache(maxsize=10_000)
def _a_day(text: str) -> date:
    return date.fromisoformat(text)


# Rows of the log, written and read.


def _add(database: sqlite3.Connection, row: Row) -> None:
    """Write a row. Raises UserError if its text is too long."""
    if row.given is not None:
        if len(row.given) > LONGEST:
            raise UserError(
                f"A text can have {LONGEST:,} characters; this one has {len(row.given):,}, so it was not saved."
            )
        row = replace(row, given=UNWRITABLE.sub("\ufffd", row.given))
    database.execute(f"INSERT {_INTO}", astuple(row))


def _find(database: sqlite3.Connection, where: str, *values: object) -> Iterator[Row]:
    """Yield the rows that the end of a query selects and orders."""
    return map(_row_of, database.execute(f"SELECT {_COLUMNS} FROM log AS l {where}", values))  # noqa: S608  names of our own


def _row_of(columns: tuple[Any, ...]) -> Row:
    """The row of the values that SQLite returns for `_COLUMNS`."""
    values = list(columns)
    values[_RETRY] = bool(values[_RETRY])
    return Row(*values)


def _find_weights(database: sqlite3.Connection) -> dict[str, tuple[Weights, str]]:
    """Each set of weights by its version, with the time from which it is in use, oldest first.

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
