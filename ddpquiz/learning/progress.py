"""A learner's progress: every write to the log, each of them one transaction."""

import json
import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple, Self

from ddpquiz.errors import UserError
from ddpquiz.learning.backups import FOLDER, Backup, save_daily_backup, save_import_backup
from ddpquiz.learning.database import reported_faults, transaction
from ddpquiz.learning.lab_passes import PASSED, SEEN
from ddpquiz.learning.log_reader import LogReader
from ddpquiz.learning.log_rows import AnswerRow, ExplanationRow, LabRow, Receipt, Row, add, find, moment
from ddpquiz.learning.schedule import Grade, Weights, study_day

_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"  # of one width, so that the order of texts is the order of times
_LAST = 1 << 62  # larger numbers of rows are not ours, and could not be counted on from
_UNSAVED = "the last step was not saved"
_NAMED = "WHERE l.device = ? AND l.sequence = ?"
_CLASH = (
    "Row {row.sequence} of device {row.device} differs from the one here, so nothing was imported: one of the two data "
    "folders is a copy of the other, and both have changed since. Import it into an empty folder: set DDPQUIZ_HOME."
)


class Merged(NamedTuple):
    """How many rows an import added, and the backup of what was there before; None if nothing changed."""

    added: int
    backup: Backup | None


class Progress(LogReader):
    """The progress in a folder. Each method that writes is one transaction, on the disk when it returns.

    Raises UserError for faults of the file, the folder or the disk. `at` is a moment in the learner's own time zone,
    which decides the study day.
    """

    def __init__(self, home: Path) -> None:
        super().__init__(home)
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
        """Save an answer to a question, and make the card that it calls due."""
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

    def stage(self, item: str, state: str, at: datetime) -> Receipt:
        """Save that a stage of a guided path was done or skipped; `item` is concept/stage."""
        return self._append(Row("stage", item, *_when(at), given=state))

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
        found = [row for row in self._hiding(study_day(at)) if row.item == item]
        for row in found:
            self.undo(row.receipt, at)
        return bool(found)

    def undo(self, receipt: Receipt, at: datetime) -> Receipt:
        """Undo a row: it stays in the log and no longer counts."""
        return self._append(self._undo_of(receipt, at))

    def _undo_of(self, receipt: Receipt, at: datetime) -> Row:
        (row,) = self._rows(_NAMED, *receipt)
        undo = Row("undo", row.item, *_when(at), calls=row.calls)
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
                    here = next(find(self._database, _NAMED, *row.receipt), None)
                    if here is None:
                        add(self._database, row)
                        added += 1
                    elif here != row:
                        raise UserError(_CLASH.format(row=row))
                if added:
                    self._states.rebuild()
        except sqlite3.IntegrityError as error:
            raise UserError(f"These rows contradict each other ({error}), so nothing was imported.") from None
        return added

    def merge_safely(self, rows: Iterable[Row], weights: Mapping[Weights, str], at: datetime) -> Merged:
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
            return Merged(added, None)
        return Merged(added, backup)

    def rebuild(self) -> None:
        with reported_faults(self.path, _UNSAVED), transaction(self._database):
            self._states.rebuild()

    def _append(self, *rows: Row) -> Receipt:
        """Write rows and the card states derived from them, in one transaction; return the receipt of the last row."""
        with reported_faults(self.path, _UNSAVED), transaction(self._database):
            weights = self.weights()
            self._add_weights(weights, "")
            last = "SELECT coalesce(max(sequence), 0) FROM log WHERE device = ? AND sequence < ?"
            before = self._database.execute(last, (self._device, _LAST)).fetchone()[0]
            written = [
                replace(row, device=self._device, sequence=number, weights=weights.version)
                for number, row in enumerate(rows, before + 1)
            ]
            for row in written:
                add(self._database, row)
                self._states.derive(row.item)
                if row.calls:
                    self._states.derive(row.calls)
        self._day = written[-1].day
        return written[-1].receipt

    def _add_weights(self, weights: Weights, since: str) -> None:
        values = (weights.version, since, weights.retention, json.dumps(weights.parameters))
        insert = "INSERT OR IGNORE INTO weights (version, since, retention, parameters) VALUES (?, ?, ?, ?)"
        self._database.execute(insert, values)

    def _own_device(self) -> str:
        """Return the id of this device in the log; the first start creates it."""
        if not (found := self._database.execute("SELECT id FROM device").fetchone()):
            # another sitting may create it at the same time
            create = "INSERT INTO device (id) SELECT ? WHERE NOT EXISTS (SELECT * FROM device)"
            self._database.execute(create, (os.urandom(6).hex(),))
            found = self._database.execute("SELECT id FROM device").fetchone()
        return str(found[0])


def _when(at: datetime) -> tuple[str, str]:
    """Return a moment in UTC as the log holds it, and its study day."""
    return _utc(at), str(study_day(at))


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).strftime(_TIME)


def _milliseconds(took: timedelta) -> int:
    return round(took.total_seconds() * 1000)
