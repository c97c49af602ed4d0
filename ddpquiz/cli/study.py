"""`ddpquiz study`: recall cards, each just before it would be forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ddpquiz.cli import clock, completion, desk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime

    from ddpquiz.curriculum.catalog import Catalog
    from ddpquiz.curriculum.concept import Concept
    from ddpquiz.learning.deal import Deal
    from ddpquiz.learning.progress import Progress

Level = Literal["beginner", "intermediate", "advanced"]
_LIMIT = 20  # cards of a sitting, unless another limit is asked for


def study(
    concept: Annotated[
        list[str] | None, typer.Argument(help="Only cards of these concepts.", autocompletion=completion.concepts)
    ] = None,
    level: Annotated[Level | None, typer.Option(help="Only cards of this level.")] = None,
    track: Annotated[str | None, typer.Option(help="Only this track.", autocompletion=completion.tracks)] = None,
    limit: Annotated[int, typer.Option(min=1, help="Cards in this sitting, at most.")] = _LIMIT,
    new: Annotated[int, typer.Option(min=0, help="New cards a day, with those begun today already.")] = 10,
    retention: Annotated[
        float | None,
        typer.Option(help="The share of cards to be recalled when they are due, from now on. [at first: 0.9]"),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="New cards of concepts that you have proven strong, too.")
    ] = False,
    cram: Annotated[
        bool, typer.Option("--cram", help="Go over all cards seen, due or not; grades leave the schedule as it is.")
    ] = False,
    two_button: Annotated[bool, typer.Option("--two-button", help="Grade with forgot and good only.")] = False,
) -> None:
    """Recall cards: those that are due, then new ones.

    A card that you forgot comes again after a few others, a hard one once at the end. Quit when you like: the next
    sitting goes on where this one ended.
    """
    from ddpquiz.curriculum import loading
    from ddpquiz.learning import deal, standing, study
    from ddpquiz.learning.progress import Progress
    from ddpquiz.learning.schedule import Schedule, study_day
    from ddpquiz.paths import data_dir
    from ddpquiz.terminal.kit import layout, style
    from ddpquiz.terminal.sittings.card_view import forecast, nothing_due
    from ddpquiz.terminal.sittings.study import StudyScreen

    known = loading.load()
    concepts = desk.chosen(known, concept, track)
    cards = [card for one in concepts for card in one.cards if level is None or card.level == level]
    filters = {"--level": level, "--track": track}
    manner = {
        "--limit": None if limit == _LIMIT else limit,
        "--all": every,
        "--cram": cram,
        "--two-button": two_button,
    }
    with Progress(data_dir()) as progress:
        at = clock.now()
        day = study_day(at)
        opening = _aim(progress, retention, at) if retention is not None else ""
        here = {card.key for card in known.cards()}
        memories = {key: memory for key, memory in progress.memories().items() if key in here}
        hidden, earlier = progress.hidden(day), progress.grades(day)
        dealt = deal.deal(
            cards,
            memories,
            day,
            limit=limit,
            new=standing.new_left(memories, day, new),
            cram=cram,
            hidden=hidden,
            proven=() if every else _proven(progress, day),
            earlier=earlier,
        )
        asked = {key: memory for key, memory in memories.items() if key not in hidden}
        if not dealt.cards:
            mine = {card.key for card in cards}
            soon = deal.due_soon({key: memory for key, memory in asked.items() if key in mine}, day)
            more = _more(concept or (), filters, dealt, standing.begun(memories, day), concepts)
            gone = sum(card.key in hidden for card in cards)
            layout.show(style.console(), nothing_due(forecast(soon, day), more, dealt, gone, opening))
            return
        begun = study.begin(
            dealt, asked, Schedule(progress.weights()), at, two_buttons=two_button, cram=cram, earlier=earlier
        )
        seat = StudyScreen(
            desk.desk(known, progress),
            begun,
            weakest=lambda: _weakest(known, progress),
            a_day=new,
            go_on=desk.words("ddpquiz", "study", *(concept or ()), **filters, **manner),
            welcome=not memories,
            opening=opening,
        )
        desk.sit_down(seat, style.console())


def _aim(progress: Progress, retention: float, at: datetime) -> str:
    """Aim at another retention from now on, and say what that means."""
    from dataclasses import replace

    before = progress.weights()
    weights = replace(before, retention=retention)
    if weights == before:
        return f"You aim at recalling {retention:.0%} of the cards that come due, as before."
    progress.use_weights(weights, at)
    return (
        f"From now on you aim at recalling {retention:.0%} of the cards that come due, until you say otherwise: "
        f"intervals are {weights.stretch / before.stretch:.2g} times as long as at {before.retention:.0%}. "
        "What is scheduled already stays."
    )


def _proven(progress: Progress, day: date) -> set[str]:
    """Return the concepts that answers to questions have proven strong."""
    from ddpquiz.learning.mastery import Label, strengths

    return {name for name, known in strengths(progress.last_answers(), day).items() if known.label is Label.STRONG}


def _more(
    named: Sequence[str], filters: Mapping[str, str | None], dealt: Deal, begun: int, concepts: Sequence[Concept]
) -> list[tuple[str, str]]:
    """Return commands for when nothing is to be dealt, and what they do; `begun` counts the new cards of today."""
    from ddpquiz.learning.deal import MORE

    study = desk.words("ddpquiz", "study", *named, **filters)
    test = desk.words("ddpquiz", "test", *named, **{"--track": filters["--track"]})
    demo = next((one.demos[0].run for one in concepts if one.demos), None)
    return [
        (f"{study} --cram", "go over cards that are not due"),
        *(
            [(f"{study} --new {begun + MORE}", f"take more new cards ({len(dealt.held)} are left)")]
            if dealt.held
            else []
        ),
        (test, "find out how strong you are"),
        *([(f"ddpquiz demo {demo}", "see it run on real ranks")] if demo else []),
    ]


def _weakest(catalog: Catalog, progress: Progress) -> str | None:
    """Return the concept that answers to questions show to be weakest."""
    from ddpquiz.learning import mastery
    from ddpquiz.learning.schedule import study_day

    here = {concept.id for concept in catalog.concepts}
    answers = (row for row in progress.last_answers() if row.item.split("/")[0] in here)
    return mastery.weakest(mastery.strengths(answers, study_day(clock.now())))
