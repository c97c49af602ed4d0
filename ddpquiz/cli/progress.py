"""`ddpquiz progress`: look after the saved progress."""

import sys
from typing import Annotated

import typer

from ddpquiz.cli import clock, completion
from ddpquiz.cli.progress_file import open_progress
from ddpquiz.errors import UserError
from ddpquiz.learning import backups
from ddpquiz.paths import data_dir

progress = typer.Typer(
    help="Look after your saved progress; `ddpquiz stats` shows it. "
    "To start over, move the data folder away; `ddpquiz doctor` prints its name.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


@progress.command()
def rebuild() -> None:
    """Compute the state of every card again from the log.

    Says whether that changed anything.
    """
    with open_progress() as opened:
        before = opened.memories()
        opened.rebuild()
        after = opened.memories()
        rows = opened.count()
    changed = sum(before.get(card) != after.get(card) for card in before.keys() | after.keys())
    what = f"{changed:,} of them changed" if changed else "nothing changed"
    print(f"{len(after):,} card{'s' * (len(after) != 1)} from {backups.count_rows(rows)} of the log; {what}.")


@progress.command()
def restore(
    item: Annotated[list[str], typer.Argument(help="Items, as concept/id.", autocompletion=completion.items)],
) -> None:
    """Bring back items that you hid."""
    with open_progress() as opened:
        for one in item:
            if not opened.restore(one, clock.now()):
                raise UserError(f"`{one}` is not hidden; `ddpquiz list --hidden` lists what is.")
            print(f"{one} is asked again.")


@progress.command(name="restore-backup")
def restore_backup(
    day: Annotated[
        str | None, typer.Argument(help="The name of the backup, such as its day, as --list shows it; else the newest.")
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="List the backups, and restore none.")] = False,
) -> None:
    """Replace your progress with a backup.

    What is there now is set aside, not deleted.
    """
    home = data_dir()
    found = [backup for backup in backups.list_backups(home) if day in (None, backup.name)]
    if show:
        for backup in found:
            print(f"{backup.name}  {backups.count_rows(backup.rows)}  {backup.path}")
    if not found:
        raise UserError(f"{home / backups.FOLDER} has no backup{f' of {day}' if day else ''} that can be restored.")
    if show:
        return
    newest, path = found[0], home / backups.FILE
    if sys.stdin.isatty() and not typer.confirm(f"Replace {path} with the backup of {newest.name}?"):
        raise typer.Exit(1)
    aside = backups.restore_backup(newest, path, clock.now())
    print(f"The backup of {newest.name} with {backups.count_rows(newest.rows)} is restored.")
    if aside:
        print(f"What was there is set aside as {aside}.")
