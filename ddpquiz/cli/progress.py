"""`ddpquiz progress`: what is kept, put right."""

from __future__ import annotations

from typing import Annotated

import typer

from ddpquiz.cli import clock, completion
from ddpquiz.errors import UserError

progress = typer.Typer(
    help="Look after what is kept of your progress; `ddpquiz stats` shows it. "
    "To start over, move the data folder away, which `ddpquiz doctor` names.",
    no_args_is_help=True,
)


@progress.command()
def rebuild() -> None:
    """Derive the state of every card from the log again, and say whether that changed anything."""
    from ddpquiz.learning.progress import Progress
    from ddpquiz.paths import data_dir

    with Progress(data_dir()) as kept:
        before = kept.memories()
        kept.rebuild()
        after = kept.memories()
        rows = kept.rows()
    changed = sum(before.get(card) != after.get(card) for card in before.keys() | after.keys())
    what = f"{changed:,} of them changed" if changed else "nothing changed"
    print(f"{len(after):,} card{'s' * (len(after) != 1)} from {rows:,} row{'s' * (rows != 1)} of the log; {what}.")


@progress.command()
def restore(
    item: Annotated[list[str], typer.Argument(help="Items, as concept/id.", autocompletion=completion.items)],
) -> None:
    """Bring back items that were suspended or buried."""
    from ddpquiz.learning.progress import Progress
    from ddpquiz.paths import data_dir

    with Progress(data_dir()) as kept:
        for one in item:
            if not kept.restore(one, clock.now()):
                raise UserError(f"`{one}` is neither suspended nor buried; `ddpquiz list --hidden` names what is.")
            print(f"{one} is asked again.")
