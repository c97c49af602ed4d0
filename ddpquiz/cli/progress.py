"""`ddpquiz progress`, `export`, `import` and `optimize`: what is done with saved progress as a whole."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Annotated, Literal

import typer

from ddpquiz.atomic_file import replacing
from ddpquiz.cli import clock, completion
from ddpquiz.cli.output import say
from ddpquiz.cli.progress_file import open_progress
from ddpquiz.curriculum import loading
from ddpquiz.errors import ContentError, UserError
from ddpquiz.learning import anki, database, exchange, fit
from ddpquiz.learning.schedule import FSRS_6
from ddpquiz.paths import data_dir
from ddpquiz.plural import plural

# `ddpquiz progress`: look after the saved progress.

progress = typer.Typer(
    help="Look after your saved progress; `ddpquiz stats` shows it. "
    "To start over, move the data folder away; `ddpquiz doctor` prints its name.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


def _moved() -> Mapping[str, str]:
    """The earlier keys of items; progress can be looked after while content has complaints."""
    try:
        return loading.load().moved
    except ContentError:
        return {}


@progress.command()
def rebuild() -> None:
    """Compute the state of every card again from the log.

    Says whether that changed anything.
    """
    with open_progress(_moved()) as opened:
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
    with open_progress(_moved()) as opened:
        for one in item:
            if not opened.restore(one, clock.now()):
                raise UserError(f"`{one}` is not hidden; `ddpquiz list --hidden` lists what is.")
            say(f"{one} is asked again.")


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
        say(f"What was there is set aside as {aside}.")


# `ddpquiz export`: write progress or cards for other programs.

_DECK = Path("ddpquiz.apkg")


def export(
    form: Annotated[
        Literal["json", "csv", "anki"],
        typer.Argument(help="json (all progress), csv (a table) or anki (the cards).", metavar="FORM"),
    ],
    to: Annotated[
        Path | None, typer.Option(help="The file to write; else standard output, or ddpquiz.apkg here.")
    ] = None,
) -> None:
    """Write your progress, as json for `ddpquiz import` or as a csv table, or the cards as a package for anki."""
    if form == "anki":
        with _written(to or _DECK) as path:
            anki.write(loading.load(), path, clock.now())
        say(f"{to or _DECK}: in Anki, choose File, Import; importing a later one brings the cards up to date.")
    elif to is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # as in a file, so that no character is lost
        _write(form, sys.stdout)
    else:
        with _written(to) as path, path.open("w", encoding="utf-8", newline="") as file:
            _write(form, file)


def _write(form: Literal["json", "csv"], file: IO[str]) -> None:
    with open_progress(_moved()) as progress:
        if form == "json":
            exchange.write_json(progress.log(), progress.all_weights(), file)
        else:
            exchange.write_csv(progress.entries("review", "answer", "explanation", "lab"), file)


@contextlib.contextmanager
def _written(path: Path) -> Iterator[Path]:
    """Yield a path to write to, which then replaces `path`; UserError when that fails."""
    try:
        with replacing(path) as fresh:
            yield fresh
    except OSError as wrong:
        raise UserError(f"{path} cannot be written: {wrong.strerror}.") from None


# `ddpquiz import`: add the progress of another machine.

_LIMIT = 256 << 20  # bytes


def import_(file: Annotated[Path, typer.Argument(help="A file that `ddpquiz export json` wrote.")]) -> None:
    """Add progress that `ddpquiz export json` wrote, here or on another machine.

    Import as often as you like, in any order; both machines end up with the same history. A backup is made first.
    """
    read = exchange.read_json(_read(file), str(file))
    with open_progress(_moved()) as progress:
        added, backup = progress.merge_safely(read.rows, read.weights, clock.now())
    count = len(read.rows)
    say(f"{added} of {count} rows were new." if added else f"Nothing was new in {count} rows.")
    if read.unknown:
        say(f"{read.unknown} more mean nothing to ddpquiz and were left out.")
    if backup:
        say(
            f"What was here before is saved as {backup.path}; "
            f"`ddpquiz progress restore-backup {backup.name}` goes back to it."
        )


def _read(file: Path) -> str:
    """The text of a file or pipe. Raises UserError if it is larger than any export."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK)  # do not wait for a pipe that nobody writes to
        os.set_blocking(handle, True)
        with os.fdopen(handle, "rb") as opened:
            data = opened.read(_LIMIT + 1)
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}.") from None
    if len(data) > _LIMIT:
        raise UserError(f"{file} is larger than {_LIMIT >> 20} MB, which no export is.")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UserError(f"{file} is not text; `ddpquiz export json` writes what can be imported.") from None


# `ddpquiz optimize`: fit the scheduler to your own reviews.


def optimize() -> None:
    """Fit the scheduler's weights to your own reviews; they are used from then on if they predict better.

    What is scheduled already stays. The same reviews give the same weights. Needs pip install 'ddpquiz[optimize]'.
    """
    with open_progress(_moved()) as progress:
        known = fit.histories(progress.entries("review"))
        if (count := fit.recalls(known)) < fit.ENOUGH:
            raise UserError(
                f"It is too early: this takes {fit.ENOUGH} reviews of cards that you had seen on an earlier day, "
                f"and there are {count:,}. Until then the usual schedule is best for you; go on with `ddpquiz study`."
            )
        before = progress.weights()
        fitted = fit.fit(known, before.retention)
        old, new = fit.look(known, before), fit.look(known, fitted)
        start = fit.look(known, replace(before, parameters=FSRS_6))
        say(f"{fit.recalls(known):,} reviews show what you forget and when. Expected loss (less is better):")
        if before.parameters != FSRS_6:
            say(f"  FSRS-6 as it starts  {start.says}")
        say(f"  in use until now     {old.says}")
        say(f"  fitted to you        {new.says}")
        if new.loss < old.loss:
            progress.use_weights(fitted, clock.now())
            say(f"The fitted weights are in use from now on, at a retention of {before.retention:.0%}.")
        else:
            say("They predict no better, so nothing was changed.")
