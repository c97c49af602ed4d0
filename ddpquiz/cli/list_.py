"""`ddpquiz list`, `show` and `search`: what there is to learn, with the learner's marks."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.cli import clock, completion
from ddpquiz.cli.output import say
from ddpquiz.curriculum import loading
from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import Concept
from ddpquiz.errors import UserError
from ddpquiz.paths import PROGRESS, data_dir
from ddpquiz.safe_text import to_json
from ddpquiz.terminal.kit import layout, style
from ddpquiz.terminal.pages import lists
from ddpquiz.terminal.pages.item import asks, item_page
from ddpquiz.terminal.pages.lists import LearnedSoFar

if TYPE_CHECKING:
    from ddpquiz.learning.log_rows import Row

# The learner's marks on items, for commands that list content.


def _marked_rows(known: Catalog, kinds: Sequence[str]) -> list[Row]:
    """The rows of the log that mark items in these ways and still apply."""
    from ddpquiz.cli.progress_file import open_progress  # noqa: PLC0415  # only for who has progress
    from ddpquiz.learning.schedule import study_day  # noqa: PLC0415

    today = str(study_day(clock.now()))
    with open_progress(known.moved) as progress:
        return [row for kind in kinds for row in progress.entries(kind) if kind != "bury" or row.day >= today]


def _has_progress() -> bool:
    """Whether there is progress to show; to open it would create the file."""
    return os.path.exists(data_dir() / PROGRESS)  # noqa: PTH110 - False, and no exception, where access is denied


def _all_marks(known: Catalog) -> dict[str, list[str]]:
    """The marks of each item."""
    found: dict[str, list[str]] = {}
    if not _has_progress():
        return found
    try:
        for row in _marked_rows(known, ("suspend", "bury", "flag")):
            if row.kind not in found.setdefault(row.item, []):
                found[row.item].append(row.kind)
    except UserError as error:
        style.complaints().print(style.plain(f"{error} Until then, marks are not shown."), soft_wrap=True)
    return found


def _learned(known: Catalog) -> dict[str, LearnedSoFar]:
    """How much the learner knows of each concept that was begun."""
    if not _has_progress():
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
        page = lists.contents(chosen, _all_marks(known), known.labs_about(chosen.id))
    else:
        labs = sum(lab.concept in {one.id for one in concepts} for lab in known.labs)
        core = () if track else known.core
        shown = dataclasses.replace(known, concepts=concepts, core=core)
        page = lists.curriculum(shown, _all_marks(known), labs, _learned(known))
    layout.show_paged(style.console(), page)


def _list_marked(known: Catalog, kinds: Sequence[str], within: Collection[str] | None, *, as_json: bool) -> None:
    """List the items that the learner marked, the newest mark first. Items that no longer exist are listed by name."""
    rows = sorted(_marked_rows(known, kinds), key=lambda row: row.at, reverse=True)
    rows = [row for row in rows if within is None or row.item.rpartition("/")[0] in within]
    marks = [(row.kind, row.item, row.day, row.given or "") for row in rows]
    if as_json:
        say(json.dumps([dict(zip(("kind", "item", "day", "note"), mark, strict=True)) for mark in marks], indent=2))
        return
    items = {item.key: item for one in known.concepts for item in one.items()}
    asked = {mark[1]: asks(items[mark[1]]) for mark in marks if mark[1] in items}
    layout.show_paged(style.console(), lists.marked([(*mark, asked.get(mark[1], "")) for mark in marks]))


def _as_json(known: Catalog, concepts: Sequence[Concept]) -> dict[str, Any]:
    titles = {track.id: track.title for track in known.tracks}
    marks = _all_marks(known)
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


# `ddpquiz show`: show one item with its answer.


def show(
    item: Annotated[
        str, typer.Argument(help="The item, as concept/id, or a concept.", autocompletion=completion.items)
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show an item with its answer, steps, source and proof; or all of the lesson of a concept."""
    known = loading.load()
    if concept := next((each for each in known.concepts if each.id == item), None):
        _show_concept(known, concept, as_json=as_json)
        return
    chosen = known.item(item)
    marks = _all_marks(known).get(chosen.key, [])
    if as_json:
        data = {"key": chosen.key, **dataclasses.asdict(chosen), "marks": marks}
        say(to_json(data, indent=2))
        return
    source = known.sources.get(getattr(chosen, "source", ""))
    layout.show_paged(style.console(), item_page(chosen, source, marks))


def _show_concept(known: Catalog, concept: Concept, *, as_json: bool) -> None:
    from ddpquiz.terminal.sittings.path import lesson_page  # noqa: PLC0415  # it shows what `bench` measured

    if not as_json:
        layout.show_paged(style.console(), lesson_page(known, concept))
        return
    told = ("id", "track", "title", "idea", "needs", "why", "more", "able", "remember")
    listed = {name: [dataclasses.asdict(each) for each in getattr(concept, name)] for name in _LISTED}
    say(to_json({**{name: getattr(concept, name) for name in told}, **listed}, indent=2))


_LISTED = ("steps", "commands", "mistakes", "demos", "cards", "questions", "explain")


# `ddpquiz search`: find concepts, demos, cards and questions by words.


def search(
    words: Annotated[list[str], typer.Argument(help="Words to search for; an item need not contain all of them.")],
    count: Annotated[int, typer.Option("--count", min=1, help="Results, at most.")] = 20,
) -> None:
    """Find concepts, demos, cards and questions by words, the best matches first."""
    wanted = " ".join(words)
    known = loading.load()
    hits = known.search(wanted)
    if not hits:
        raise UserError(f"Nothing matches `{wanted}`. Try other words, or see `ddpquiz list`.")
    shown = lists.to_read(hits)[:count]
    page = lists.found(shown, wanted, _all_marks(known))
    commands = Text("ddpquiz learn CONCEPT · ddpquiz demo NAME · ddpquiz show ITEM", style="code")
    parts: list[RenderableType] = [page, Text(), commands]
    if len(hits) > count:
        given = shlex.join((*["--"] * any(word.startswith("-") for word in words), *words))
        parts.append(Text(f"{len(hits) - count} more: ddpquiz search --count {len(hits)} {given}"))
    layout.show_paged(style.console(), Group(*parts))
