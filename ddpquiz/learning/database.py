"""The file that holds progress: open, check and migrate it, and report its faults in sentences."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from ddpquiz.errors import UserError
from ddpquiz.learning.backups import FILE, FOLDER, DamagedError, count_rows, find_damage, is_damage, list_backups
from ddpquiz.learning.schema import MIGRATIONS, has_tables

_NAME = 0x64647071  # "ddpq" in the header marks the file as ours
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
            f"{path} is missing, but there is a backup of {backup.name} with {count_rows(backup.rows)} of your log; "
            f"`ddpquiz progress restore-backup` restores it. To start afresh, move {home / FOLDER} away too."
        )
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
        if is_damage(error):
            raise DamagedError(path, str(error)) from error
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
    if tables and database.execute("PRAGMA application_id").fetchone()[0] != _NAME:
        raise UserError(f"{path} was not made by ddpquiz; move it away, or set DDPQUIZ_HOME to another folder.")
    if tables and version < 1:
        raise DamagedError(path, f"its version is {version}")
    if version > len(MIGRATIONS):
        raise UserError(
            f"{path} was written by a newer ddpquiz (its version is {version}, this ddpquiz knows {len(MIGRATIONS)}); "
            "update ddpquiz. Nothing was changed."
        )
    if tables and (problem := find_damage(database)):
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
            database.execute(f"PRAGMA application_id = {_NAME}")
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
