"""The learner's marks on items, for commands that list content."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ddpquiz.cli import clock
from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.errors import UserError
from ddpquiz.paths import PROGRESS, data_dir
from ddpquiz.terminal.kit import style

if TYPE_CHECKING:
    from ddpquiz.learning.log_rows import Row


def marked_rows(known: Catalog, kinds: Sequence[str]) -> list[Row]:
    """The rows of the log that mark items in these ways and still apply."""
    from ddpquiz.cli.progress_file import open_progress  # noqa: PLC0415  # only for who has progress
    from ddpquiz.learning.schedule import study_day  # noqa: PLC0415

    today = str(study_day(clock.now()))
    with open_progress(known.moved) as progress:
        return [row for kind in kinds for row in progress.entries(kind) if kind != "bury" or row.day >= today]


def has_progress() -> bool:
    """Whether there is progress to show; to open it would create the file."""
    return os.path.exists(data_dir() / PROGRESS)  # noqa: PTH110 - False, and no exception, where access is denied


def all_marks(known: Catalog) -> dict[str, list[str]]:
    """The marks of each item."""
    found: dict[str, list[str]] = {}
    if not has_progress():
        return found
    try:
        for row in marked_rows(known, ("suspend", "bury", "flag")):
            if row.kind not in found.setdefault(row.item, []):
                found[row.item].append(row.kind)
    except UserError as error:
        style.complaints().print(style.plain(f"{error} Until then, marks are not shown."), soft_wrap=True)
    return found
