"""`ddpquiz progress`: look after the saved progress."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ddpquiz.cli import clock, completion
from ddpquiz.cli.output import say
from ddpquiz.cli.progress_file import moved_items, open_progress
from ddpquiz.errors import UserError
from ddpquiz.learning import database
from ddpquiz.paths import data_dir
from ddpquiz.plural import plural

progress = typer.Typer(
    help="Look after your saved progress; `ddpquiz stats` shows it. "
    "To start over, move the data folder away; `ddpquiz doctor` says where it is.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


@progress.command()
def rebuild() -> None:
    """Recompute the state of every card from the log.

    Says whether that changed anything.
    """
    with open_progress(moved_items()) as opened:
        before = opened.memories()
        opened.rebuild()
        after = opened.memories()
        rows = opened.count()
    changed = sum(before.get(card) != after.get(card) for card in before.keys() | after.keys())
    what = f"{changed:,} of them changed" if changed else "nothing changed"
    say(f"{plural(len(after), 'card')} from {plural(rows, 'row')} of the log; {what}.")


@progress.command()
def restore(
    item: Annotated[list[str], typer.Argument(help="Items, as concept/id.", autocompletion=completion.items)],
) -> None:
    """Bring back items that you hid."""
    with open_progress(moved_items()) as opened:
        for one in item:
            if not opened.restore(one, clock.now()):
                raise UserError(f"`{one}` is not hidden; `ddpquiz list --hidden` lists what is.")
            say(f"{one} will be asked again.")


@progress.command(name="restore-backup")
def restore_backup(
    day: Annotated[
        str | None, typer.Argument(help="The name of the backup, as --list shows it. [default: the newest]")
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="List the backups, and restore none.")] = False,
) -> None:
    """Replace your progress with a backup.

    What is there now is set aside, not deleted.
    """
    home = data_dir()
    found = [backup for backup in database.list_backups(home) if day in (None, backup.name)]
    if show:
        for backup in found:
            say(f"{backup.name}  {plural(backup.rows, 'row')}  {backup.path}")
    if not found:
        raise UserError(f"{home / database.FOLDER} has no backup{f' of {day}' if day else ''} that can be restored.")
    if show:
        return
    newest, path = found[0], home / database.FILE
    if sys.stdin.isatty() and not typer.confirm(f"Replace {path} with the backup of {newest.name}?"):
        raise typer.Exit(1)
    aside = database.restore_backup(newest, path, clock.now())
    say(f"The backup of {newest.name} with {plural(newest.rows, 'row')} is restored.")
    if aside:
        say(f"Your earlier progress is kept as {aside}.")
