"""`ddpquiz list`: the curriculum or the items of a concept, with the learner's marks."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Sequence
from typing import Annotated, Any

import typer

from ddpquiz.cli import clock, completion
from ddpquiz.cli.item_marks import all_marks, has_progress, marked_rows
from ddpquiz.cli.output import say
from ddpquiz.curriculum import loading
from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import Concept
from ddpquiz.errors import UserError
from ddpquiz.safe_text import to_json
from ddpquiz.terminal.kit import pager, style
from ddpquiz.terminal.pages import lists
from ddpquiz.terminal.pages.item import asks
from ddpquiz.terminal.pages.lists import LearnedSoFar


def _learned(known: Catalog) -> dict[str, LearnedSoFar]:
    """How much the learner knows of each concept that was begun."""
    if not has_progress():
        return {}
    from ddpquiz.cli.progress_file import open_progress  # noqa: PLC0415  # only for who has progress
    from ddpquiz.learning.guided_path import load_history  # noqa: PLC0415
    from ddpquiz.learning.schedule import study_day  # noqa: PLC0415

    try:
        with open_progress(known.moved) as progress:
            begun, seen = progress.concepts(), progress.memories()
            history = load_history(progress, study_day(clock.now()))
    except UserError:
        return {}  # the marks say so
    return {
        one.id: LearnedSoFar(sum(card.key in seen for card in one.cards), history.has_read(one.id))
        for one in known.concepts
        if one.id in begun
    }


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
    concepts = known.choose(None, track)
    if hidden or flagged:
        within = {chosen.id} if chosen else {one.id for one in concepts} if track else None
        _list_marked(known, ("suspend", "bury") * hidden + ("flag",) * flagged, within, as_json=as_json)
        return
    if chosen:
        concepts = known.path(chosen.id) if path else (chosen,)
    if as_json:
        say(to_json(_as_json(known, concepts), indent=2))
        return
    if path:
        page = lists.learning_path(concepts)
    elif chosen:
        page = lists.contents(chosen, all_marks(known), known.labs_about(chosen.id))
    else:
        labs = sum(lab.concept in {one.id for one in concepts} for lab in known.labs)
        core = () if track else known.core
        shown = dataclasses.replace(known, concepts=concepts, core=core)
        page = lists.curriculum(shown, all_marks(known), labs, _learned(known))
    pager.show_paged(style.console(), page)


def _list_marked(known: Catalog, kinds: Sequence[str], within: Collection[str] | None, *, as_json: bool) -> None:
    """List the items that the learner marked, the newest mark first. Items that no longer exist are listed by name."""
    rows = sorted(marked_rows(known, kinds), key=lambda row: row.at, reverse=True)
    rows = [row for row in rows if within is None or row.item.rpartition("/")[0] in within]
    marks = [(row.kind, row.item, row.day, row.given or "") for row in rows]
    if as_json:
        say(json.dumps([dict(zip(("kind", "item", "day", "note"), mark, strict=True)) for mark in marks], indent=2))
        return
    items = {item.key: item for one in known.concepts for item in one.items()}
    asked = {mark[1]: asks(items[mark[1]]) for mark in marks if mark[1] in items}
    pager.show_paged(style.console(), lists.marked([(*mark, asked.get(mark[1], "")) for mark in marks]))


def _as_json(known: Catalog, concepts: Sequence[Concept]) -> dict[str, Any]:
    titles = {track.id: track.title for track in known.tracks}
    marks = all_marks(known)
    return {
        "concepts": [
            {
                "id": concept.id,
                "track": {"id": concept.track, "title": titles[concept.track]},
                "title": concept.title,
                "idea": concept.idea,
                "needs": concept.needs,
                "core": concept.id in known.core,
                "cards": [card.key for card in concept.cards],
                "questions": [question.key for question in concept.questions],
                "demos": list(dict.fromkeys(link.run for link in concept.demos)),
                "marks": {item.key: marks[item.key] for item in concept.items() if item.key in marks},
            }
            for concept in concepts
        ],
    }
