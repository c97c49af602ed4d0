"""Backups of the progress database: one for each study day, the last ten kept, each checked."""

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ddpquiz.errors import UserError
from ddpquiz.learning.damage import find_damage

FOLDER = "backups"
COUNT = 10
_NAME = "progress-{day}.db"


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup of the progress: its file, its study day, and the number of rows in its log."""

    path: Path
    day: str
    rows: int


def list_backups(home: Path) -> Iterator[Backup]:
    """Yield the good backups in a data folder, newest first; damaged ones are left out."""
    for path in sorted((home / FOLDER).glob(_NAME.format(day="*")), reverse=True):
        with suppress(sqlite3.Error), closing(_open(path)) as database:
            if find_damage(database) is None:
                rows = database.execute("SELECT count(*) FROM log").fetchone()[0]
                yield Backup(path, path.stem.removeprefix("progress-"), rows)


def save_backup(database: sqlite3.Connection, home: Path, day: str) -> str | None:
    """Save the backup of a study day if there is none, delete the oldest, and return any damage that the check finds.

    Raises OSError or sqlite3.Error if the backup cannot be written; then no part of it remains.
    """
    path = home / FOLDER / _NAME.format(day=day)
    if path.exists():
        return None
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with _new_file(path.parent) as new:
        with closing(sqlite3.connect(new)) as copy:
            database.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
            if damage := find_damage(copy):
                return damage
        new.replace(path)
    for old in sorted(path.parent.glob(_NAME.format(day="*")))[:-COUNT]:
        old.unlink(missing_ok=True)
    return None


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
