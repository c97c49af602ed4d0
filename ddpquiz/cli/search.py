"""`ddpquiz search`: find concepts and items by their words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ddpquiz.cli import item_marks

if TYPE_CHECKING:
    from rich.console import RenderableType


def search(
    words: Annotated[list[str], typer.Argument(help="Words that must all occur.")],
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many to show.")] = 20,
) -> None:
    """Find concepts, cards and questions by their words."""
    import shlex

    from rich.console import Group
    from rich.text import Text

    from ddpquiz.curriculum import loading
    from ddpquiz.errors import UserError
    from ddpquiz.terminal.kit import pager, style
    from ddpquiz.terminal.pages import listing

    wanted = " ".join(words)
    hits = loading.load().search(wanted)
    if not hits:
        raise UserError(f"Nothing holds `{wanted}`; try fewer words, or see `ddpquiz list`.")
    shown = listing.to_read(hits)[:limit]
    page = listing.found(shown, wanted, item_marks.marks())
    parts: list[RenderableType] = [page, Text(), Text("ddpquiz show ITEM", style="code")]
    if len(hits) > limit:
        given = shlex.join((*["--"] * any(word.startswith("-") for word in words), *words))
        parts.append(Text(f"{len(hits) - limit} more: ddpquiz search --limit {len(hits)} {given}"))
    pager.show(style.console(), Group(*parts))
