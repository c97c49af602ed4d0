"""The file that holds progress: open, check and migrate it, and report its faults in sentences."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ddpquiz.errors import UserError
from ddpquiz.learning.backups import list_backups
from ddpquiz.learning.damage import find_damage
from ddpquiz.learning.schema import MIGRATIONS
from ddpquiz.learning.side_files import load_json, save_json

FILE = "progress.db"
STAMP_FILE = "progress.checked.json"
_NAME = 0x64647071  # "ddpq" in the header marks the file as ours
_WAIT = 10.0  # seconds for another sitting to finish its write


class DamagedError(UserError):
    """The progress file is damaged; the text offers the newest good backup."""

    def __init__(self, path: Path, problem: str) -> None:
        wrong = f"{path} is damaged ({problem.splitlines()[-1]})"
        if backup := next(list_backups(path.parent), None):
            super().__init__(
                f"{wrong}. `ddpquiz progress restore-backup` sets it aside and restores the backup of {backup.day}, "
                f"which holds {backup.rows:,} row{'s' * (backup.rows != 1)} of your log."
            )
        else:
            super().__init__(f"{wrong}, and there is no backup. Move it away to start afresh.")


def connect(home: Path) -> sqlite3.Connection:
    """Open the progress in a folder at the current version; create it if there is none.

    Raises UserError, and DamagedError if the file was changed since `save_stamp` and is damaged.
    """
    path = home / FILE
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"The data folder {home} cannot be created ({error.strerror}); {_ELSEWHERE}") from None
    with reported_faults(path):
        if path.exists() and not path.stat().st_size and _load_stamp(path):
            raise DamagedError(path, "it is empty")  # SQLite would take it for a new database
        _make_private(path)
        is_as_left = _is_as_left(path)
        database = sqlite3.connect(path, timeout=_WAIT, isolation_level=None)
        try:
            _prepare(database, path, is_as_left=is_as_left)
        except BaseException:
            database.close()
            raise
    return database


@contextmanager
def reported_faults(path: Path) -> Iterator[None]:
    """Raise faults of a file, a folder or a disk as sentences that say what to do; other faults are bugs."""
    try:
        yield
    except UnicodeDecodeError as error:  # in a message of SQLite that quotes the damaged data
        raise DamagedError(path, "it holds text that is not valid") from error
    except sqlite3.DatabaseError as error:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(_DAMAGED) or str(error).startswith("Could not decode to UTF-8"):
            raise DamagedError(path, str(error)) from error
        for fault, sentence in _FAULTS.items():
            if name.startswith(fault):
                raise UserError(sentence.format(path=path, folder=path.parent)) from error
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


def save_stamp(path: Path) -> None:
    """Save the size and time of the closed file, so that the next start checks it only if it was changed."""
    with suppress(OSError):  # then the next start checks it
        if (stamp := _stamp(path)) != _load_stamp(path):
            save_json(path.with_name(STAMP_FILE), stamp)


def _is_as_left(path: Path) -> bool:
    """Return whether the unopened file is as `save_stamp` saw it, and no sitting has it open."""
    with suppress(OSError):
        return _load_stamp(path) == _stamp(path) and not path.with_name(f"{FILE}-wal").exists()
    return False


def _load_stamp(path: Path) -> object:
    try:
        return load_json(path.with_name(STAMP_FILE))
    except (OSError, ValueError):
        return None


def _stamp(path: Path) -> dict[str, int]:
    found = path.stat()
    return {"size": found.st_size, "changed": found.st_mtime_ns}


def _make_private(path: Path) -> None:
    """Create the file for its owner alone, or remove the rights of others from one that an older version made."""
    with suppress(OSError):  # SQLite reports what is wrong
        handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            if os.fstat(handle).st_mode & 0o077:
                os.fchmod(handle, 0o600)
        finally:
            os.close(handle)


def _prepare(database: sqlite3.Connection, path: Path, *, is_as_left: bool) -> None:
    tables = database.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    version = _version(database)  # read last: another sitting may be creating the file
    if tables and (version == 0 or database.execute("PRAGMA application_id").fetchone()[0] != _NAME):
        raise UserError(f"{path} was not made by ddpquiz; move it away, or set DDPQUIZ_HOME to another folder.")
    if version > len(MIGRATIONS):
        raise UserError(
            f"{path} was written by a newer ddpquiz (its version is {version}, this ddpquiz knows {len(MIGRATIONS)}); "
            "update ddpquiz. Nothing was changed."
        )
    if version and not is_as_left and (problem := find_damage(database)):
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
_DAMAGED = ("SQLITE_NOTADB", "SQLITE_CORRUPT")
_FAULTS = {
    "SQLITE_CANTOPEN": f"{{path}} cannot be opened; {_ELSEWHERE}",
    "SQLITE_READONLY": f"{{path}} cannot be written; {_ELSEWHERE}",
    "SQLITE_PERM": f"{{path}} cannot be written; {_ELSEWHERE}",
    "SQLITE_FULL": "The disk with {folder} is full, so the last answer was not saved; make room and answer it again.",
    "SQLITE_IOERR": "The disk with {folder} reports a fault, so the last answer was not saved; is it full, or gone?",
    "SQLITE_BUSY": "Another sitting has been writing to {path} for ten seconds; end it and try again.",
}
