"""`ddpquiz search`: find concepts, demos, cards and questions by words."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.cli import item_marks
from ddpquiz.curriculum import loading
from ddpquiz.errors import UserError
from ddpquiz.terminal.kit import pager, style
from ddpquiz.terminal.pages import listing


def search(
    words: Annotated[list[str], typer.Argument(help="Words to search for; an item need not contain all of them.")],
    limit: Annotated[int, typer.Option("--limit", min=1, help="The maximum number of results.")] = 20,
) -> None:
    """Find concepts, demos, cards and questions by words, the best matches first."""
    wanted = " ".join(words)
    hits = loading.load().search(wanted)
    if not hits:
        raise UserError(f"Nothing matches `{wanted}`. Try other words, or see `ddpquiz list`.")
    shown = listing.to_read(hits)[:limit]
    page = listing.found(shown, wanted, item_marks.marks())
    commands = Text("ddpquiz learn CONCEPT · ddpquiz demo NAME · ddpquiz show ITEM", style="code")
    parts: list[RenderableType] = [page, Text(), commands]
    if len(hits) > limit:
        given = shlex.join((*["--"] * any(word.startswith("-") for word in words), *words))
        parts.append(Text(f"{len(hits) - limit} more: ddpquiz search --limit {len(hits)} {given}"))
    pager.show(style.console(), Group(*parts))
