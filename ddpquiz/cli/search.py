"""`ddpquiz search`: find concepts and items by their words."""

from __future__ import annotations

from typing import Annotated

import typer


def search(
    words: Annotated[list[str], typer.Argument(help="Words that must all occur.")],
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many to show.")] = 20,
) -> None:
    """Find concepts, cards and questions by their words."""
    import shlex

    from rich.text import Text

    from ddpquiz.curriculum import catalog
    from ddpquiz.errors import UserError
    from ddpquiz.terminal import layout, listing, style

    wanted = " ".join(words)
    hits = catalog.load().search(wanted)
    if not hits:
        raise UserError(f"Nothing holds `{wanted}`; try fewer words, or see `ddpquiz list`.")
    console = style.console()
    layout.show(console, listing.found(hits[:limit], wanted))
    if len(hits) > limit:
        layout.show(console, Text(f"{len(hits) - limit} more: ddpquiz search --limit {len(hits)} {shlex.join(words)}"))
