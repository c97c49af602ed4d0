"""`ddpquiz export`: write progress or cards for other programs."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Literal

import typer

from ddpquiz.atomic_file import replacing
from ddpquiz.cli import clock
from ddpquiz.cli.output import say
from ddpquiz.cli.progress_file import moved_items, open_progress
from ddpquiz.curriculum import loading
from ddpquiz.errors import UserError
from ddpquiz.learning import anki, exchange
from ddpquiz.safe_text import one_line

_DECK = Path("ddpquiz.apkg")


def export(
    form: Annotated[
        Literal["json", "csv", "anki"],
        typer.Argument(help="json (all progress), csv (a table) or anki (the cards).", metavar="FORM"),
    ],
    to: Annotated[
        Path | None, typer.Option(help="The file to write. [default: standard output; anki: ddpquiz.apkg here]")
    ] = None,
) -> None:
    """Write your progress, as json for `ddpquiz import` or as a csv table, or the cards as a package for anki."""
    if form == "anki":
        with _written(to or _DECK) as path:
            anki.write(loading.load(), path, clock.now())
        deck = one_line(str(to or _DECK))
        say(f"{deck}: in Anki, choose File > Import. To update the cards later, export and import again.")
    elif to is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # as in a file, so that no character is lost
        _write(form, sys.stdout)
    else:
        with _written(to) as path, path.open("w", encoding="utf-8", newline="") as file:
            _write(form, file)


def _write(form: Literal["json", "csv"], file: IO[str]) -> None:
    with open_progress(moved_items()) as progress:
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
