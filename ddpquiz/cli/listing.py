"""`ddpquiz list`: what there is to learn."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ddpquiz.cli import names

if TYPE_CHECKING:
    from ddpquiz.curriculum.catalog import Catalog
    from ddpquiz.curriculum.concept import Concept


def list_(
    concept: Annotated[
        str | None,
        typer.Argument(help="List what this concept holds.", autocompletion=names.concepts),
    ] = None,
    path: Annotated[bool, typer.Option("--path", help="List what to learn first to understand CONCEPT.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """List the curriculum, or what one concept holds."""
    from ddpquiz.curriculum import catalog

    if path and concept is None:
        raise typer.BadParameter("name a concept: `ddpquiz list --path CONCEPT`")
    known = catalog.load()
    chosen = known.concept(concept) if concept else None
    if as_json:
        concepts = known.path(chosen.id) if chosen and path else [chosen] if chosen else known.concepts
        print(json.dumps(_as_json(known, concepts), indent=2, ensure_ascii=False))
        return
    from ddpquiz.terminal import layout, listing, style

    if chosen and path:
        page = listing.way(known.path(chosen.id))
    else:
        page = listing.contents(chosen) if chosen else listing.curriculum(known)
    layout.show(style.console(), page)


def _as_json(known: Catalog, concepts: tuple[Concept, ...] | list[Concept]) -> dict[str, Any]:
    titles = {track.id: track.title for track in known.tracks}
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
            }
            for concept in concepts
        ],
    }
