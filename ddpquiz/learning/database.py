"""The file that holds progress: opened, checked, migrated and backed up, with its faults in sentences.

There is a backup for each study day, and one before each import; the last ten of each stay.
"""

from __future__ import annotations

import os
import re
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from ddpquiz.atomic_file import is_pipe_or_device
from ddpquiz.errors import UserError
from ddpquiz.learning.schema import MIGRATIONS, has_tables
from ddpquiz.paths import PROGRESS
from ddpquiz.plural import plural

FILE, FOLDER = PROGRESS, "backups"
_ENDS = ("", "-wal", "-shm", "-journal")  # of the names of the files that SQLite opens
COUNT = 10
_DAY = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]"
_DAILY, _BEFORE_IMPORT = f"progress-{_DAY}.db", f"progress-{_DAY}-import-*.db"
_APPLICATION_ID = 0x64647071  # "ddpq" in the header marks the file as ours
_WAIT = 10.0  # seconds for another sitting to finish its write


def connect(home: Path) -> sqlite3.Connection:
    """Open the progress in a folder at the current version; create it if there is none.

    Raises UserError; DamagedError if the file is damaged, so that nothing is written to it.
    """
    path = home / FILE
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        size = path.stat().st_size if path.exists() else None
    except OSError as error:
        raise UserError(f"The data folder {home} cannot be used ({error.strerror}); {_ELSEWHERE}") from None
    if not size and (backup := next((each for each in list_backups(home) if each.rows), None)):
        # SQLite would begin anew
        if size == 0:
            raise DamagedError(path, "it is empty")
        raise UserError(
            f"{path} is missing, but there is a backup of {backup.name} with {plural(backup.rows, 'row')} of your log; "
            f"`ddpquiz progress restore-backup` restores it. To start afresh, move {home / FOLDER} away too."
        )
    if pipe := next(filter(is_pipe_or_device, (path.with_name(FILE + end) for end in _ENDS)), None):
        raise UserError(f"{pipe} is a pipe or a device; remove it, or set DDPQUIZ_HOME to another folder.")
    with reported_faults(path, "your progress cannot be opened"):
        _make_private(path)
        database = sqlite3.connect(path, timeout=_WAIT, isolation_level=None)
        database.text_factory = partial(str, encoding="utf-8", errors="replace")  # another program may write other text
        try:
            _prepare(database, path)
        except BaseException:
            database.close()
            raise
    return database


@contextmanager
def reported_faults(path: Path, so: str = "your progress cannot be read") -> Iterator[None]:
    """Raise faults of a file, a folder or a disk as sentences that say what to do; other faults are bugs.

    `so` is what a full or broken disk leads to.
    """
    try:
        yield
    except UnicodeDecodeError as error:  # in a message of SQLite that quotes the damaged data
        raise DamagedError(path, "it holds text that is not valid") from error
    except sqlite3.DatabaseError as error:
        if _is_damage(error):
            raise DamagedError(path, str(error)) from error
        if isinstance(error, sqlite3.OperationalError | sqlite3.IntegrityError):
            _refuse_newer(path, _version_now(path), "start ddpquiz again")
        name = getattr(error, "sqlite_errorname", "")
        for fault, sentence in _FAULTS.items():
            if name.startswith(fault):
                raise UserError(sentence.format(path=path, folder=path.parent, so=so)) from error
        if isinstance(error, sqlite3.OperationalError) and not _has_our_tables(path):
            raise DamagedError(path, "its tables are not those of ddpquiz") from error
        raise


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Commit all statements or none; another sitting waits from the first one on."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _refuse_newer(path: Path, version: int, do: str) -> None:
    """Raise UserError if a newer ddpquiz has written a file, perhaps during this sitting."""
    if version > len(MIGRATIONS):
        raise UserError(
            f"{path} was written by a newer ddpquiz (its version is {version}, this ddpquiz knows {len(MIGRATIONS)}); "
            f"{do}. Nothing was changed."
        )


def _version_now(path: Path) -> int:
    with suppress(sqlite3.Error), closing(_open(path)) as database:
        return _version(database)
    return 0


def _has_our_tables(path: Path) -> bool:
    with closing(sqlite3.connect(path, timeout=_WAIT)) as database:
        return has_tables(database, _version(database))


def _make_private(path: Path) -> None:
    """Create the file for its owner alone, or remove the rights of others from one that an older version made."""
    with suppress(OSError):  # SQLite reports what is wrong
        handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            if os.fstat(handle).st_mode & 0o077:
                os.fchmod(handle, 0o600)
        finally:
            os.close(handle)


def _prepare(database: sqlite3.Connection, path: Path) -> None:
    tables = database.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    version = _version(database)  # read last: another sitting may be creating the file
    if tables and database.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION_ID:
        raise UserError(f"{path} was not made by ddpquiz; move it away, or set DDPQUIZ_HOME to another folder.")
    if tables and version < 1:
        raise DamagedError(path, f"its version is {version}")
    _refuse_newer(path, version, "update ddpquiz")
    if tables and (problem := _find_damage(database)):
        raise DamagedError(path, problem)
    _switch_to_wal(database)
    database.execute("PRAGMA synchronous = FULL")
    if version < len(MIGRATIONS):
        database.execute("PRAGMA foreign_keys = OFF")  # else replacing a table would also change the references to it
        _migrate(database)
    database.execute("PRAGMA foreign_keys = ON")


def _switch_to_wal(database: sqlite3.Connection) -> None:
    """Use a write-ahead log; SQLite does not wait by itself if another sitting is switching a new file to one, too."""
    end = time.monotonic() + _WAIT
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > end:
                raise
            time.sleep(0.01)
        else:
            return


def _migrate(database: sqlite3.Connection) -> None:
    for number, statements in enumerate(MIGRATIONS, start=1):
        with transaction(database):
            if _version(database) >= number:  # done, perhaps by another sitting
                continue
            for statement in statements:
                database.execute(statement)
            database.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            database.execute(f"PRAGMA user_version = {number}")


def _version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


_ELSEWHERE = "make it writable, or set DDPQUIZ_HOME to another folder."
_FAULTS = {
    "SQLITE_CANTOPEN": f"{{path}} cannot be opened; {_ELSEWHERE}",
    "SQLITE_READONLY": f"{{path}} cannot be written; {_ELSEWHERE}",
    "SQLITE_PERM": f"{{path}} cannot be written; {_ELSEWHERE}",
    "SQLITE_FULL": "The disk with {folder} is full, so {so}; make room and try again.",
    "SQLITE_IOERR": "The disk with {folder} reports a fault, so {so}; is it full, or gone?",
    "SQLITE_BUSY": "Another sitting has been writing to {path} for ten seconds; end it and try again.",
}


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
                f"which holds {plural(backup.rows, 'row')} of your log."
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
            if _find_damage(database) is None:
                rows = database.execute("SELECT count(*) FROM log").fetchone()[0]
                found.append(Backup(path, path.stem.removeprefix("progress-"), rows))
    day = len("2026-03-02")
    yield from sorted(found, key=lambda each: (each.name[:day], each.rows), reverse=True)  # the log only grows


def save_daily_backup(database: sqlite3.Connection, home: Path, day: str) -> None:
    """Save a backup for a study day, unless it has one, and delete backups that are too old.

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


def _find_damage(database: sqlite3.Connection) -> str | None:
    """What SQLite finds wrong with a file, or None; it reads everything, which is 0.1 s for 100,000 reviews.

    Raises sqlite3.Error for a fault of the disk.
    """
    try:
        (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        if _is_damage(error):
            return str(error)
        raise
    return None if verdict == "ok" else str(verdict)


def _is_damage(error: sqlite3.Error) -> bool:
    """Whether an error says that the file is damaged, and not the disk, the folder or the statement."""
    is_named = getattr(error, "sqlite_errorname", "").startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT"))
    return is_named or str(error) == "unsupported file format"  # of a header that SQLite never wrote


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
            if damage := _find_damage(copy):
                raise DamagedError(home / FILE, damage)
            rows = copy.execute("SELECT count(*) FROM log").fetchone()[0]
        new.replace(path)
    return Backup(path, name, rows)


def _delete_oldest(home: Path, pattern: str) -> None:
    for old in _paths(home, pattern)[:-COUNT]:
        old.unlink(missing_ok=True)


def _paths(home: Path, *patterns: str) -> list[Path]:
    """The files of backups, oldest first as far as their names say."""
    found = (path for pattern in patterns for path in (home / FOLDER).glob(pattern))
    return sorted((path for path in found if not is_pipe_or_device(path)), key=_numbers)


def _numbers(path: Path) -> list[int]:
    """The numbers in the name of a backup: year, month, day and, before an import, which one of the day."""
    return [int(number) for number in re.findall(r"\d+", path.stem)]


@contextmanager
def _new_file(folder: Path) -> Iterator[Path]:
    """Yield a new file that only its owner can read; it is deleted at the end unless it was moved."""
    handle, name = tempfile.mkstemp(prefix=".progress-", suffix=".db", dir=folder)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        for end in _ENDS:
            Path(name + end).unlink(missing_ok=True)


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
