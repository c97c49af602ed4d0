"""`ddpquiz search`: find concepts, demos, labs, cards and questions by words."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.cli.item_marks import all_marks
from ddpquiz.curriculum import loading
from ddpquiz.errors import UserError
from ddpquiz.terminal.kit import pager, style
from ddpquiz.terminal.pages import lists

_BEST = 6  # results that fit a terminal of 24 rows


def search(
    words: Annotated[list[str], typer.Argument(help="Words to search for; a result need not contain all of them.")],
    count: Annotated[int, typer.Option("--count", min=1, help="The most results to show.")] = _BEST,
    every: Annotated[bool, typer.Option("--all", help="Show all results.")] = False,
) -> None:
    """Search concepts, demos, labs, cards and questions; the best matches come first."""
    wanted = " ".join(words)
    known = loading.load()
    hits = known.search(wanted)
    if not hits:
        raise UserError(f"Nothing matches `{wanted}`. Try other words, or see `ddpquiz list`.")
    shown = lists.to_read(hits)[: None if every else count]
    page = lists.found(shown, wanted, all_marks(known))
    commands = Text("ddpquiz learn CONCEPT · ddpquiz demo NAME · ddpquiz lab NAME · ddpquiz show ITEM", style="code")
    parts: list[RenderableType] = [page, Text(), commands]
    if more := len(hits) - len(shown):
        given = shlex.join((*["--"] * any(word.startswith("-") for word in words), *words))
        parts.append(Text(f"{more} more: add a word, or see all with ddpquiz search --all {given}"))
    pager.show_paged(style.console(), Group(*parts))
