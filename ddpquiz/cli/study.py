"""`ddpquiz study`: recall cards, each just before it would be forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ddpquiz.cli import names, sitting

if TYPE_CHECKING:
    from ddpquiz.curriculum.catalog import Catalog
    from ddpquiz.learning.progress import Progress

Level = Literal["beginner", "intermediate", "advanced"]


def study(
    concept: Annotated[
        list[str] | None, typer.Argument(help="Only cards of these concepts.", autocompletion=names.concepts)
    ] = None,
    level: Annotated[Level | None, typer.Option(help="Only cards of this level.")] = None,
    track: Annotated[str | None, typer.Option(help="Only this track.", autocompletion=names.tracks)] = None,
    limit: Annotated[int, typer.Option(min=1, help="Cards in this sitting, at most.")] = 20,
    new: Annotated[int | None, typer.Option(min=0, help="New cards in this sitting. [default: 10 a day]")] = None,
    cram: Annotated[bool, typer.Option("--cram", help="Go over cards that are not due yet, too.")] = False,
    two_button: Annotated[bool, typer.Option("--two-button", help="Grade with forgot and good only.")] = False,
) -> None:
    """Recall cards: those that are due, then new ones."""
    from ddpquiz.curriculum import catalog
    from ddpquiz.learning import advice, database, study
    from ddpquiz.learning.progress import Progress
    from ddpquiz.learning.schedule import Schedule, study_day
    from ddpquiz.terminal import style
    from ddpquiz.terminal.study import Studying

    known = catalog.load()
    concepts = sitting.chosen(known, concept, track)
    cards = [card for one in concepts for card in one.cards if level is None or card.level == level]
    with Progress(database.folder()) as progress:
        at = sitting.now()
        day = study_day(at)
        here = {card.key for card in known.cards()}
        memories = {key: memory for key, memory in progress.memories().items() if key in here}
        fresh = advice.new_left(memories, day) if new is None else new
        dealt = study.deal(cards, memories, day, limit=limit, new=fresh, cram=cram)
        if not dealt.cards:
            from ddpquiz.terminal import home, layout

            standing = advice.standing(concepts, memories, {}, day)
            layout.show(style.console(), home.nothing_due(standing, "".join(f"{one} " for one in concept or ())))
            return
        begun = study.begin(dealt, memories, Schedule(progress.weights()), at, two_buttons=two_button)
        seat = Studying(
            sitting.desk(known, progress), begun, weakest=lambda: _weakest(known, progress), welcome=not memories
        )
        sitting.sit_down(seat, style.console())


def _weakest(catalog: Catalog, progress: Progress) -> str | None:
    """Return the concept that answers to questions show to be weakest."""
    from ddpquiz.learning import mastery
    from ddpquiz.learning.schedule import study_day

    here = {concept.id for concept in catalog.concepts}
    answers = (row for row in progress.kept("answer") if not row.retry and row.item.split("/")[0] in here)
    return mastery.weakest(mastery.strengths(answers, study_day(sitting.now())))
