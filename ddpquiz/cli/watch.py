"""`ddpquiz watch`: what the ranks of a recorded job do, live."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddpquiz.errors import UserError
from ddpquiz.terminal.kit import screen, style
from ddpquiz.terminal.runs.job_watch import JobFollower, watch_in_lines, watch_on_screen


def watch(
    job: Annotated[Path, typer.Argument(help="The folder that `ddpquiz.record` writes to.")],
    plain: Annotated[bool, typer.Option("--plain", help="Print lines, as in a pipe.")] = False,
) -> None:
    """Show live what the ranks of a recorded job do; when the job has ended, say what went wrong, if anything did.

    The folder may still be empty. In jobs of more than 16 ranks, ranks that do the same thing are shown as one group.
    """
    if job.exists() and not job.is_dir():
        raise UserError(f"{job} is a file; `ddpquiz watch` needs the folder into which the ranks write.")
    show = watch_in_lines if plain or not screen.is_interactive() else watch_on_screen
    show(JobFollower(job), style.console())
