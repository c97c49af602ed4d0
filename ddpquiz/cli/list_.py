"""`ddpquiz list`: list the curriculum."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Sequence
from typing import Annotated, Any

import typer

from ddpquiz.cli import completion, desk, item_marks
from ddpquiz.curriculum import loading
from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import Concept
from ddpquiz.terminal.kit import pager, style
from ddpquiz.terminal.pages import listing
from ddpquiz.terminal.pages.item import asks


def list_(
    concept: Annotated[
        str | None,
        typer.Argument(help="List the items of this concept.", autocompletion=completion.concepts),
    ] = None,
    path: Annotated[
        bool,
        typer.Option(
            "--path", help="List the concepts to learn before CONCEPT, in order; without CONCEPT, all concepts."
        ),
    ] = False,
    track: Annotated[str | None, typer.Option(help="List only this track.", autocompletion=completion.tracks)] = None,
    hidden: Annotated[bool, typer.Option("--hidden", help="List the items that you hid.")] = False,
    flagged: Annotated[
        bool, typer.Option("--flagged", help="List items that you flagged as wrong or unclear.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the curriculum, or the items of one concept."""
    if concept and track:
        raise typer.BadParameter("name a concept or a track, not both", param_hint="--track")
    known = loading.load()
    chosen = known.concept(concept) if concept else None
    concepts = tuple(desk.chosen(known, None, track))
    if hidden or flagged:
        within = {chosen.id} if chosen else {one.id for one in concepts} if track else None
        _list_marked(known, ("suspend", "bury") * hidden + ("flag",) * flagged, within, as_json=as_json)
        return
    if chosen:
        concepts = known.path(chosen.id) if path else (chosen,)
    if as_json:
        print(json.dumps(_as_json(known, concepts), indent=2, ensure_ascii=False))
        return
    if path:
        page = listing.learning_path(concepts)
    elif chosen:
        page = listing.contents(chosen, item_marks.marks(), known.labs_about(chosen.id))
    else:
        labs = sum(lab.concept in {one.id for one in concepts} for lab in known.labs)
        page = listing.curriculum(dataclasses.replace(known, concepts=concepts), item_marks.marks(), labs)
    pager.show(style.console(), page)


def _list_marked(known: Catalog, kinds: Sequence[str], within: Collection[str] | None, *, as_json: bool) -> None:
    """List the items that the learner marked, the newest mark first. Items that no longer exist are listed by name."""
    rows = sorted(item_marks.rows(kinds), key=lambda row: row.at, reverse=True)
    rows = [row for row in rows if within is None or row.item.rpartition("/")[0] in within]
    marks = [(row.kind, row.item, row.day, row.given or "") for row in rows]
    if as_json:
        print(json.dumps([dict(zip(("kind", "item", "day", "note"), mark, strict=True)) for mark in marks], indent=2))
        return
    items = {item.key: item for one in known.concepts for item in one.items()}
    asked = {mark[1]: asks(items[mark[1]]) for mark in marks if mark[1] in items}
    pager.show(style.console(), listing.marked([(*mark, asked.get(mark[1], "")) for mark in marks]))


def _as_json(known: Catalog, concepts: Sequence[Concept]) -> dict[str, Any]:
    titles = {track.id: track.title for track in known.tracks}
    marks = item_marks.marks()
    return {
        "concepts": [
            {
                "id": concept.id,
                "track": {"id": concept.track, "title": titles[concept.track]},
                "title": concept.title,
                "idea": concept.idea,
                "needs": concept.needs,
                "cards": [card.key for card in concept.cards],
                "questions": [question.key for question in concept.questions],
                "demos": list(dict.fromkeys(link.run for link in concept.demos)),
                "marks": {item.key: marks[item.key] for item in concept.items() if item.key in marks},
            }
            for concept in concepts
        ],
    }
