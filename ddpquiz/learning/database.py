"""The file that keeps progress: found, opened, brought up to date, and its faults told in sentences."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ddpquiz.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE = "progress.db"
_NAME = 0x64647071  # "ddpq", in the file's header: whose file this is
_WAIT = 10.0  # seconds for another sitting to finish its write

# Each migration is run once, in one transaction with the number that records it. Never change one: add the next.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE device (id TEXT NOT NULL PRIMARY KEY) STRICT",  # this machine: one row
        """CREATE TABLE weights (
            version TEXT NOT NULL PRIMARY KEY,
            since TEXT NOT NULL,
            retention REAL NOT NULL,
            parameters TEXT NOT NULL
        ) STRICT""",
        """CREATE TABLE log (
            device TEXT NOT NULL,
            sequence INTEGER NOT NULL,
            at TEXT NOT NULL,
            day TEXT NOT NULL,
            kind TEXT NOT NULL CHECK (kind IN ('review', 'answer', 'flag', 'undo')),
            item TEXT NOT NULL,
            weights TEXT NOT NULL REFERENCES weights,
            took INTEGER,
            grade INTEGER CHECK (grade BETWEEN 1 AND 4),
            credit REAL CHECK (credit BETWEEN 0 AND 1),
            chance REAL CHECK (chance BETWEEN 0 AND 1),
            level TEXT,
            given TEXT,
            calls TEXT,
            retry INTEGER NOT NULL DEFAULT 0,
            undone_device TEXT,
            undone_sequence INTEGER,
            PRIMARY KEY (device, sequence),
            FOREIGN KEY (undone_device, undone_sequence) REFERENCES log DEFERRABLE INITIALLY DEFERRED,
            CHECK ((kind = 'review') = (grade IS NOT NULL)),
            CHECK ((kind = 'answer') = (credit IS NOT NULL)),
            CHECK ((kind = 'undo') = (undone_sequence IS NOT NULL))
        ) STRICT, WITHOUT ROWID""",
        "CREATE INDEX log_item ON log (item)",
        "CREATE INDEX log_calls ON log (calls) WHERE calls IS NOT NULL",
        "CREATE INDEX log_undone ON log (undone_device, undone_sequence) WHERE undone_sequence IS NOT NULL",
        "CREATE TRIGGER log_is_kept BEFORE DELETE ON log BEGIN SELECT raise(ABORT, 'the log is append-only'); END",
        "CREATE TRIGGER log_is_fixed BEFORE UPDATE ON log BEGIN SELECT raise(ABORT, 'the log is append-only'); END",
        # Derived from the log; `Progress.rebuild` makes it again
        """CREATE TABLE card (
            item TEXT NOT NULL PRIMARY KEY,
            due TEXT NOT NULL,
            stability REAL,
            difficulty REAL,
            first TEXT,
            last TEXT,
            reps INTEGER NOT NULL,
            lapses INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID""",
        "CREATE INDEX card_due ON card (due)",
    ),
    # More kinds of rows, and what answers and explanations tell besides their credit. The columns come last, so that
    # rows can be copied as they are.
    (
        "ALTER TABLE log RENAME TO log_1",
        """CREATE TABLE log (
            device TEXT NOT NULL,
            sequence INTEGER NOT NULL,
            at TEXT NOT NULL,
            day TEXT NOT NULL,
            kind TEXT NOT NULL
                CHECK (kind IN ('review', 'answer', 'flag', 'suspend', 'bury', 'explanation', 'undo')),
            item TEXT NOT NULL,
            weights TEXT NOT NULL REFERENCES weights,
            took INTEGER,
            grade INTEGER CHECK (grade BETWEEN 1 AND 4),
            credit REAL CHECK (credit BETWEEN 0 AND 1),
            chance REAL CHECK (chance BETWEEN 0 AND 1),
            level TEXT,
            given TEXT,
            calls TEXT,
            retry INTEGER NOT NULL DEFAULT 0,
            undone_device TEXT,
            undone_sequence INTEGER,
            confidence REAL CHECK (confidence BETWEEN 0 AND 1),
            points TEXT,
            PRIMARY KEY (device, sequence),
            FOREIGN KEY (undone_device, undone_sequence) REFERENCES log DEFERRABLE INITIALLY DEFERRED,
            CHECK ((kind = 'review') = (grade IS NOT NULL)),
            CHECK ((kind IN ('answer', 'explanation')) = (credit IS NOT NULL)),
            CHECK (kind = 'answer' OR confidence IS NULL),
            CHECK ((kind = 'explanation') = (points IS NOT NULL)),
            CHECK ((kind = 'undo') = (undone_sequence IS NOT NULL))
        ) STRICT, WITHOUT ROWID""",
        "INSERT INTO log SELECT *, NULL, NULL FROM log_1",
        "DROP TABLE log_1",
        "CREATE INDEX log_kind ON log (kind, at)",
        "CREATE INDEX log_item ON log (item)",
        "CREATE INDEX log_calls ON log (calls) WHERE calls IS NOT NULL",
        "CREATE INDEX log_undone ON log (undone_device, undone_sequence) WHERE undone_sequence IS NOT NULL",
        "CREATE TRIGGER log_is_kept BEFORE DELETE ON log BEGIN SELECT raise(ABORT, 'the log is append-only'); END",
        "CREATE TRIGGER log_is_fixed BEFORE UPDATE ON log BEGIN SELECT raise(ABORT, 'the log is append-only'); END",
    ),
)


class DamagedError(UserError):
    """The file of the progress is damaged; `repair.repair` saves what can be read."""

    def __init__(self, sentence: str, path: Path) -> None:
        self.path = path
        super().__init__(sentence)


def connect(home: Path) -> sqlite3.Connection:
    """Open the progress kept in a folder, at today's version; it is made when there is none."""
    path = home / FILE
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"The data folder {home} cannot be made ({error.strerror}); {_ELSEWHERE}") from None
    with mendable(path):
        database = sqlite3.connect(path, timeout=_WAIT, isolation_level=None)
        try:
            _prepare(database, path)
        except BaseException:
            database.close()
            raise
    return database


@contextmanager
def mendable(path: Path) -> Iterator[None]:
    """Turn the faults of a file, a folder or a disk into sentences that say what to do; other faults are bugs."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        name = getattr(error, "sqlite_errorname", "")
        for fault, sentence in _FAULTS.items():
            if name.startswith(_DAMAGED) and name.startswith(fault):
                raise DamagedError(sentence.format(path=path), path) from error
            if name.startswith(fault):
                raise UserError(sentence.format(path=path, folder=path.parent)) from error
        raise


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """All of it or nothing; another sitting waits its turn from the first line on."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _prepare(database: sqlite3.Connection, path: Path) -> None:
    tables = database.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    version = _version(database)  # read last: another sitting may just be making the file, its tables and its version
    if tables and (version == 0 or database.execute("PRAGMA application_id").fetchone()[0] != _NAME):
        raise UserError(f"{path} is no progress of ddpquiz; move it away, or set DDPQUIZ_HOME to another folder.")
    if version > len(MIGRATIONS):
        raise UserError(
            f"{path} was written by a newer ddpquiz (its version is {version}, this ddpquiz knows {len(MIGRATIONS)}); "
            "update ddpquiz. Nothing was changed."
        )
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    if version < len(MIGRATIONS):
        database.execute("PRAGMA foreign_keys = OFF")  # else a table that is replaced takes its references along
        _migrate(database)
    database.execute("PRAGMA foreign_keys = ON")


def _migrate(database: sqlite3.Connection) -> None:
    for number, statements in enumerate(MIGRATIONS, start=1):
        with transaction(database):
            if _version(database) >= number:  # done, perhaps by another sitting a moment ago
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
    "SQLITE_FULL": "The disk with {folder} is full, so the last answer was not kept; make room and answer it again.",
    "SQLITE_IOERR": "The disk with {folder} reports a fault, so the last answer was not kept; is it full, or gone?",
    "SQLITE_BUSY": "Another sitting has been writing to {path} for ten seconds; end it and try again.",
    "SQLITE_NOTADB": "{path} is damaged: it is no database any more. Put a copy back, or move it away to start afresh.",
    "SQLITE_CORRUPT": "{path} is damaged. Move it away to start afresh; `sqlite3 FILE .recover` may save what it held.",
}
