"""`ddpquiz compare`: what got slower or faster between two saved runs, and what is new."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddpquiz.cli.output import say
from ddpquiz.events import comparison, saved_run
from ddpquiz.safe_text import to_json
from ddpquiz.terminal.kit import pager, style
from ddpquiz.terminal.runs.comparison_page import comparison_page


def compare(
    a: Annotated[Path, typer.Argument(help="A run that `ddpquiz run --save FILE.json` saved.", show_default=False)],
    b: Annotated[Path, typer.Argument(help="A later run, to compare with it.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Compare two saved runs: what got slower or faster, which operations are new or gone, more or fewer bytes.

    Lines of the script may have moved between the runs. Times are those of an average rank.
    """
    found = comparison.compare(saved_run.read(a), saved_run.read(b))
    if as_json:
        say(to_json(found.as_json()))
        return
    pager.show_paged(style.console(), comparison_page(found, (a.name, b.name)))
