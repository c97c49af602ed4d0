"""The learner's marks on items, for commands that list content."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ddpquiz.cli import clock
from ddpquiz.cli.progress_file import open_progress
from ddpquiz.errors import UserError
from ddpquiz.learning.backups import FILE
from ddpquiz.learning.log_rows import Row
from ddpquiz.learning.schedule import study_day
from ddpquiz.paths import data_dir
from ddpquiz.terminal.kit import style


def rows(kinds: Sequence[str]) -> list[Row]:
    """Return the rows of the log that mark items in these ways and still apply."""
    today = str(study_day(clock.now()))
    with open_progress() as progress:
        return [row for kind in kinds for row in progress.entries(kind) if kind != "bury" or row.day >= today]


def marks() -> dict[str, list[str]]:
    """Return the marks of each item; if there is no progress, nothing is marked and no file is created."""
    found: dict[str, list[str]] = {}
    if not os.path.exists(data_dir() / FILE):  # noqa: PTH110 - False, and no exception, where access is denied
        return found
    try:
        for row in rows(("suspend", "bury", "flag")):
            if row.kind not in found.setdefault(row.item, []):
                found[row.item].append(row.kind)
    except UserError as error:
        style.complaints().print(style.plain(f"{error} Until then, marks are not shown."), soft_wrap=True)
    return found
