"""`ddpquiz show`: one item with its answer, or all of the lesson of a concept."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from ddpquiz.cli import completion
from ddpquiz.cli.item_marks import all_marks
from ddpquiz.cli.output import say
from ddpquiz.curriculum import loading
from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import Concept
from ddpquiz.safe_text import to_json
from ddpquiz.terminal.kit import pager, style
from ddpquiz.terminal.pages.item import item_page


def show(
    item: Annotated[
        str, typer.Argument(help="A card or question, as concept/id, or a concept.", autocompletion=completion.items)
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show a card or question with its answer, steps, source and proof, or the whole lesson of a concept."""
    known = loading.load()
    if concept := next((each for each in known.concepts if each.id == item), None):
        _show_concept(known, concept, as_json=as_json)
        return
    chosen = known.item(item)
    marks = all_marks(known).get(chosen.key, [])
    if as_json:
        data = {"key": chosen.key, **dataclasses.asdict(chosen), "marks": marks}
        say(to_json(data, indent=2))
        return
    source = known.sources.get(getattr(chosen, "source", ""))
    pager.show_paged(style.console(), item_page(chosen, source, marks))


def _show_concept(known: Catalog, concept: Concept, *, as_json: bool) -> None:
    from ddpquiz.terminal.sittings.lesson_page import lesson_page  # noqa: PLC0415  # it shows what `bench` measured

    if not as_json:
        pager.show_paged(style.console(), lesson_page(known, concept))
        return
    told = ("id", "track", "title", "idea", "needs", "why", "more", "able", "remember")
    listed = {name: [dataclasses.asdict(each) for each in getattr(concept, name)] for name in _LISTED}
    say(to_json({**{name: getattr(concept, name) for name in told}, **listed}, indent=2))


_LISTED = ("steps", "commands", "mistakes", "demos", "cards", "questions", "explain")
