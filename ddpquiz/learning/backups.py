"""Backups of the progress database: one for each study day, and one before each import; the last ten of each stay."""

import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ddpquiz.errors import UserError

FILE, FOLDER = "progress.db", "backups"
COUNT = 10
_DAY = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]"
_DAILY, _BEFORE_IMPORT = f"progress-{_DAY}.db", f"progress-{_DAY}-import-*.db"


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup of the progress: its file, its name, and the number of rows in its log.

    The name is its study day; that of the second one before an import of a day is `2026-03-02-import-2`.
    """

    path: Path
    name: str
    rows: int


class DamagedError(UserError):
    """The progress file is damaged; the text offers the newest whole backup."""

    def __init__(self, path: Path, problem: str) -> None:
        wrong = f"{path} is damaged ({problem.splitlines()[-1]})"
        if backup := next(list_backups(path.parent), None):
            super().__init__(
                f"{wrong}. `ddpquiz progress restore-backup` sets it aside and restores the backup of {backup.name}, "
                f"which holds {count_rows(backup.rows)} of your log."
            )
        else:
            super().__init__(f"{wrong}, and there is no backup. Move it away to start afresh.")


def list_backups(home: Path) -> Iterator[Backup]:
    """Yield the whole backups in a data folder, newest first; damaged ones are left out. May raise UserError."""
    found = []
    try:
        paths = _paths(home, _DAILY, _BEFORE_IMPORT)
    except OSError as error:
        raise UserError(f"{home / FOLDER} cannot be read: {error.strerror}.") from None
    for path in paths:
        with suppress(sqlite3.Error, UnicodeDecodeError), closing(_open(path)) as database:
            if find_damage(database) is None:
                rows = database.execute("SELECT count(*) FROM log").fetchone()[0]
                found.append(Backup(path, path.stem.removeprefix("progress-"), rows))
    day = len("2026-03-02")
    yield from sorted(found, key=lambda each: (each.name[:day], each.rows), reverse=True)  # the log only grows


def save_daily_backup(database: sqlite3.Connection, home: Path, day: str) -> None:
    """Save the backup of a study day if there is none, and delete the oldest.

    Raises DamagedError, or OSError or sqlite3.Error if it cannot be written; then no part of it remains.
    """
    if not (home / FOLDER / f"progress-{day}.db").exists():
        _save(database, home, day)
        _delete_oldest(home, _DAILY)


def save_import_backup(database: sqlite3.Connection, home: Path, day: str) -> Backup:
    """Save and return the backup before an import on a study day, and delete the oldest such; raises as above."""
    before = _paths(home, f"progress-{day}-import-*.db")
    backup = _save(database, home, f"{day}-import-{_numbers(before[-1])[-1] + 1 if before else 1}")
    _delete_oldest(home, _BEFORE_IMPORT)
    return backup


def find_damage(database: sqlite3.Connection) -> str | None:
    """Return what SQLite finds wrong with a file, or None; it reads everything, which is 0.1 s for 100,000 reviews.

    Raises sqlite3.Error for a fault of the disk.
    """
    try:
        (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            return str(error)
        raise
    return None if verdict == "ok" else str(verdict)


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error says that the file is damaged, and not the disk, the folder or the statement."""
    return getattr(error, "sqlite_errorname", "").startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT"))


def restore_backup(backup: Backup, path: Path, at: datetime) -> Path | None:
    """Replace the database at `path` with a backup; return where the database was set aside, if there was one.

    The restored log continues as that of a new device, so rows that it lacks can still be imported. Raises UserError.
    """
    aside = path.with_name(f"{path.name}.replaced-{at:%Y%m%d-%H%M%S-%f}")
    wal = path.with_name(f"{path.name}-wal")
    try:
        with _new_file(path.parent) as new:
            with closing(sqlite3.connect(new)) as copy, closing(_open(backup.path)) as saved:
                saved.backup(copy)
                copy.execute("DELETE FROM device")
                copy.commit()
            existed = path.exists()
            if existed:  # a second name for the same file: there is a database under `path` at every moment
                os.link(path, aside)
            if wal.exists():
                wal.replace(aside.with_name(f"{aside.name}-wal"))
            path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
            new.replace(path)
    except (OSError, sqlite3.Error) as error:
        raise UserError(f"The backup {backup.path} cannot be restored: {error}. Nothing was changed.") from None
    return aside if existed else None


def _save(database: sqlite3.Connection, home: Path, name: str) -> Backup:
    path = home / FOLDER / f"progress-{name}.db"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with _new_file(path.parent) as new:
        with closing(sqlite3.connect(new)) as copy:
            database.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
            if damage := find_damage(copy):
                raise DamagedError(home / FILE, damage)
            rows = copy.execute("SELECT count(*) FROM log").fetchone()[0]
        new.replace(path)
    return Backup(path, name, rows)


def _delete_oldest(home: Path, pattern: str) -> None:
    for old in _paths(home, pattern)[:-COUNT]:
        old.unlink(missing_ok=True)


def _paths(home: Path, *patterns: str) -> list[Path]:
    """Return the files of backups, oldest first as far as their names say."""
    return sorted((path for pattern in patterns for path in (home / FOLDER).glob(pattern)), key=_numbers)


def _numbers(path: Path) -> list[int]:
    """Return the numbers in the name of a backup: year, month, day and, before an import, which one of the day."""
    return [int(number) for number in re.findall(r"\d+", path.stem)]


def count_rows(count: int) -> str:
    """Return a number of rows in words."""
    return f"{count:,} row{'s' * (count != 1)}"


@contextmanager
def _new_file(folder: Path) -> Iterator[Path]:
    """Yield a new file that only its owner can read; it is deleted at the end unless it was moved."""
    handle, name = tempfile.mkstemp(prefix=".progress-", suffix=".db", dir=folder)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        for end in ("", "-wal", "-shm", "-journal"):
            Path(name + end).unlink(missing_ok=True)


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
