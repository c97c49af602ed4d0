"""`ddpquiz import`: add the progress of another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddpquiz.atomic_file import open_at_once
from ddpquiz.cli import clock
from ddpquiz.cli.output import say
from ddpquiz.cli.progress_file import moved_items, open_progress
from ddpquiz.errors import UserError
from ddpquiz.learning import exchange

_LIMIT = 256 << 20  # bytes


def import_(file: Annotated[Path, typer.Argument(help="A file that `ddpquiz export json` wrote.")]) -> None:
    """Add progress that `ddpquiz export json` wrote, here or on another machine.

    Import as often as you like, in any order; both machines end up with the same history. A backup is made first.
    """
    read = exchange.read_json(_read(file), str(file))
    with open_progress(moved_items()) as progress:
        added, backup = progress.merge_safely(read.rows, read.weights, clock.now())
    count = len(read.rows)
    say(f"{added} of {count} log rows were new." if added else f"None of the {count} log rows was new.")
    if read.unknown:
        say(f"{read.unknown} more could not be understood, and were left out.")
    if backup:
        say(
            f"What was here before is saved as {backup.path}; "
            f"`ddpquiz progress restore-backup {backup.name}` goes back to it."
        )


def _read(file: Path) -> str:
    """The text of a file or pipe. Raises UserError if it is larger than any export."""
    try:
        with open_at_once(file) as opened:
            data = opened.read(_LIMIT + 1)
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}.") from None
    if len(data) > _LIMIT:
        raise UserError(f"{file} is larger than {_LIMIT >> 20} MB, which is too large for an export.")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UserError(f"{file} is not text; `ddpquiz export json` writes what can be imported.") from None
