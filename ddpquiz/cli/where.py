"""`ddpquiz where`: the stacks of a rank that runs now."""

from typing import Annotated

import typer

from ddpquiz.ranks.process_stacks import stacks_of
from ddpquiz.terminal.kit import pager, style
from ddpquiz.terminal.runs.stacks_page import stacks_page


def where(
    pid: Annotated[
        int,
        typer.Argument(min=1, help="The process of a rank, or of `ddpquiz run` for all.", metavar="PID"),
    ],
) -> None:
    """Show where all threads of a running rank and of its children are, the innermost call first.

    The rank goes on undisturbed. For processes that ddpquiz did not start, use py-spy.
    """
    pager.show(style.console(), stacks_page(stacks_of(pid)))
