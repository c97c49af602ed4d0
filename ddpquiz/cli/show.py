"""`ddpquiz show`: show one item with its answer."""

import dataclasses
import json
from typing import Annotated

import typer

from ddpquiz.cli import completion, item_marks
from ddpquiz.curriculum import loading
from ddpquiz.terminal.kit import pager, style
from ddpquiz.terminal.pages.item import item_page


def show(
    item: Annotated[str, typer.Argument(help="The item, as concept/id.", autocompletion=completion.items)],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show an item with its answer, steps, source and proof."""
    known = loading.load()
    chosen = known.item(item)
    marks = item_marks.marks().get(chosen.key, [])
    if as_json:
        data = {"key": chosen.key, **dataclasses.asdict(chosen), "marks": marks}
        print(json.dumps(data, indent=2, ensure_ascii=False))
        return
    source = known.sources.get(getattr(chosen, "source", ""))
    pager.show(style.console(), item_page(chosen, source, marks))
