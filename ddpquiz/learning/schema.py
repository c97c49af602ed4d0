"""The schema of the progress database, as migrations: each brings the version before up to date."""

import re
import sqlite3
from contextlib import closing

# The indexes and triggers of the log, which go with the table when a migration replaces it.
_AROUND_LOG = (
    "CREATE INDEX log_kind ON log (kind, at)",
    "CREATE INDEX log_item ON log (item)",
    "CREATE INDEX log_calls ON log (calls) WHERE calls IS NOT NULL",
    "CREATE INDEX log_undone ON log (undone_device, undone_sequence) WHERE undone_sequence IS NOT NULL",
    "CREATE TRIGGER log_is_kept BEFORE DELETE ON log BEGIN SELECT raise(ABORT, 'the log is append-only'); END",
    "CREATE TRIGGER log_is_fixed BEFORE UPDATE ON log BEGIN SELECT raise(ABORT, 'the log is append-only'); END",
)


def _new_log(version: int, kinds: str, with_credit: str, rows: str = "*") -> tuple[str, ...]:
    """A migration from `version` that makes the log anew, with other kinds of rows, and copies its rows.

    `kinds` are all kinds of rows, `with_credit` those that have a credit, both as SQL; `rows` is what is copied.
    """
    return (
        f"ALTER TABLE log RENAME TO log_{version}",
        f"""CREATE TABLE log (
            device TEXT NOT NULL,
            sequence INTEGER NOT NULL,
            at TEXT NOT NULL,
            day TEXT NOT NULL,
            kind TEXT NOT NULL CHECK (kind IN ({kinds})),
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
            CHECK ((kind IN ({with_credit})) = (credit IS NOT NULL)),
            CHECK (kind = 'answer' OR confidence IS NULL),
            CHECK ((kind = 'explanation') = (points IS NOT NULL)),
            CHECK ((kind = 'undo') = (undone_sequence IS NOT NULL))
        ) STRICT, WITHOUT ROWID""",
        f"INSERT INTO log SELECT {rows} FROM log_{version}",  # noqa: S608  # both are written here
        f"DROP TABLE log_{version}",
        *_AROUND_LOG,
    )


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
        # Derived from the log; `Progress.rebuild` derives it again
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
    # More kinds of rows, and what answers and explanations hold besides their credit. The columns come last, so that
    # rows can be copied as they are.
    _new_log(
        1,
        "'review', 'answer', 'flag', 'suspend', 'bury', 'explanation', 'undo'",
        "'answer', 'explanation'",
        "*, NULL, NULL",
    ),
    # Rows of labs.
    _new_log(
        2,
        "'review', 'answer', 'flag', 'suspend', 'bury', 'explanation', 'lab', 'undo'",
        "'answer', 'explanation', 'lab'",
    ),
    # Rows of stages: what was done or skipped on the guided path of a concept.
    _new_log(
        3,
        "'review', 'answer', 'flag', 'suspend', 'bury', 'explanation', 'lab', 'stage', 'undo'",
        "'answer', 'explanation', 'lab'",
    ),
)


def has_tables(database: sqlite3.Connection, version: int) -> bool:
    """Whether a database has the tables, indexes and triggers of a version of the schema; it may have more."""
    with closing(sqlite3.connect(":memory:")) as expected:
        for statements in MIGRATIONS[:version]:
            for statement in statements:
                expected.execute(statement)
        return _statements(expected) <= _statements(database)


def _statements(database: sqlite3.Connection) -> set[str]:
    """The statements that made the tables, without blanks and quotes, which other tools change."""
    return {re.sub(r"[\s\"]", "", sql) for (sql,) in database.execute("SELECT sql FROM sqlite_schema") if sql}
