"""`ddpquiz import`: take in the progress of another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddpquiz.errors import UserError


def import_(file: Annotated[Path, typer.Argument(help="What `ddpquiz export json` wrote.")]) -> None:
    """Take in progress that `ddpquiz export json` wrote, here or on another machine; what is here already stays."""
    from ddpquiz.learning import exchange
    from ddpquiz.learning.progress import Progress
    from ddpquiz.paths import data_dir

    try:
        text = file.read_text("utf-8")
    except OSError as wrong:
        raise UserError(f"{file} cannot be read: {wrong.strerror}.") from None
    except UnicodeDecodeError:
        raise UserError(f"{file} is no text; `ddpquiz export json` writes what can be imported.") from None
    rows, weights = exchange.read_json(text, str(file))
    with Progress(data_dir()) as progress:
        added = progress.merge(rows, weights)
    typer.echo(f"{added} of {len(rows)} rows were new." if added else f"Nothing was new in {len(rows)} rows.")
