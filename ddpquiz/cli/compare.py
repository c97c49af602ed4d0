"""`ddpquiz compare`: how two saved runs differ."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ddpquiz.analysis import comparison, saved_run
from ddpquiz.analysis.event_codec import escape_controls
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
        typer.echo(escape_controls(json.dumps(found.as_json(), ensure_ascii=False)))
        return
    pager.show(style.console(), comparison_page(found, (a.name, b.name)))
