"""`ddpquiz study`: recall cards, each just before it would be forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Annotated, Literal

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.cli import clock, completion, session
from ddpquiz.cli.progress_file import open_progress
from ddpquiz.cli.typer_options import with_options
from ddpquiz.curriculum import loading
from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import Card
from ddpquiz.learning import standing
from ddpquiz.learning import study as sittings
from ddpquiz.learning.mastery import Label, strengths
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Schedule, study_day
from ddpquiz.learning.standing import NEW_A_DAY
from ddpquiz.learning.study import Sitting
from ddpquiz.terminal.kit import layout, style
from ddpquiz.terminal.sittings.study import WELCOME, StudyScreen, forecast, nothing_due

Level = Literal["beginner", "intermediate", "advanced"]
LIMIT = 20  # cards of a sitting, unless another limit is asked for


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """Which cards to ask, and how."""

    concept: Annotated[
        list[str] | None, typer.Argument(help="Only cards of these concepts.", autocompletion=completion.concepts)
    ] = None
    level: Annotated[Level | None, typer.Option(help="Only cards of this level.")] = None
    track: Annotated[str | None, typer.Option(help="Only this track.", autocompletion=completion.tracks)] = None
    limit: Annotated[int, typer.Option(min=1, help="Cards in this sitting, at most.")] = LIMIT
    new: Annotated[
        int | None,
        typer.Option(min=0, help="New cards per day, at most. [default: 10; no limit for concepts that you name]"),
    ] = None
    retention: Annotated[
        float | None,
        typer.Option(help="From now on, the share of due cards that you want to recall. [at first: 0.9]"),
    ] = None
    every: Annotated[bool, typer.Option("--all", help="Also new cards of concepts that you have proven strong.")] = (
        False
    )
    cram: Annotated[
        bool, typer.Option("--cram", help="Go over all cards seen, due or not; the schedule does not change.")
    ] = False
    two_button: Annotated[bool, typer.Option("--two-button", help="Grade with forgot and good only.")] = False

    @property
    def a_day(self) -> int | None:
        """New cards per day; None, without a limit, where concepts were named and no number was given."""
        return self.new if self.new is not None else None if self.concept else NEW_A_DAY

    @property
    def filtered(self) -> str:
        """The command line that chooses from the same cards."""
        return session.words("ddpquiz", "study", *self.concept or (), **{"--level": self.level, "--track": self.track})

    @property
    def command(self) -> str:
        """The command line that was given, without the number of new cards."""
        limit = None if self.limit == LIMIT else self.limit
        flags = {"--all": self.every, "--cram": self.cram, "--two-button": self.two_button}
        return session.words(self.filtered, **{"--limit": limit, **flags})


@with_options(StudyOptions)
def study(*, options: StudyOptions) -> None:
    """Recall cards: those that are due, then new ones.

    A forgotten card comes again after a few others, a hard one once more at the end. You can quit at any time: the next
    sitting goes on where this one ended.
    """
    sit(options)


def sit(options: StudyOptions, place: str = "", back_to: str = "") -> None:
    """Choose the cards, and ask them; or show what else to do. For `place` and `back_to` see SessionContext."""
    known = loading.load()
    concepts = session.chosen(known, options.concept, options.track)
    cards = [card for one in concepts for card in one.cards if options.level in (None, card.level)]
    with open_progress() as progress:
        at = clock.now()
        opening = _aim(progress, options.retention, at) if options.retention is not None else ""
        sitting = begin(known, cards, options, progress, at)
        if not sitting.chosen.cards:
            demos = [link.run for one in concepts for link in one.demos]
            above = [Text(opening), Text()] if opening else []
            layout.show(style.console(), Group(*above, _nothing_due(sitting, cards, options, demos)))
            return
        welcome = [] if progress.memories() else [WELCOME]
        screen = StudyScreen(
            session.context(known, progress, place, back_to),
            sitting,
            a_day=options.a_day,
            go_on=options.command,
            opening=[*welcome, *filter(None, [opening])],
        )
        session.run_session(screen, style.console())


def begin(known: Catalog, cards: Sequence[Card], options: StudyOptions, progress: Progress, at: datetime) -> Sitting:
    """Choose the cards of a sitting from those given, and return the sitting with the first card on screen."""
    day, here, a_day = study_day(at), {card.key for card in known.cards()}, options.a_day
    memories = {key: memory for key, memory in progress.memories().items() if key in here}
    hidden = progress.hidden(day)
    rules = sittings.QueueRules(
        limit=options.limit,
        new=len(cards) if a_day is None else standing.new_left(memories, day, a_day),
        cram=options.cram,
        hidden=hidden,
        proven=() if options.every else _proven(progress, day),
        earlier=progress.grades(day),
    )
    asked = {key: memory for key, memory in memories.items() if key not in hidden}
    chosen = sittings.choose_cards(cards, memories, day, rules)
    return sittings.begin(chosen, asked, Schedule(progress.weights()), at, two_buttons=options.two_button)


def _nothing_due(
    sitting: Sitting, cards: Sequence[Card], options: StudyOptions, demos: Sequence[str]
) -> RenderableType:
    """Draw what else there is to do when no card was chosen."""
    day, held = study_day(sitting.since), sitting.chosen.held
    mine = {card.key for card in cards}
    soon = sittings.due_soon({key: memory for key, memory in sitting.memories.items() if key in mine}, day)
    new = f"{options.filtered} --new {standing.begun(sitting.memories, day) + sittings.MORE}"
    test = session.words("ddpquiz", "test", *options.concept or (), **{"--track": options.track})
    instead = [
        (f"{options.filtered} --cram", "go over cards that are not due"),
        *([(new, f"study more new cards ({len(held)} are left)")] if held else []),
        (test, "find out how strong you are"),
        *((f"ddpquiz demo {demo}", "see it run on real ranks") for demo in demos[:1]),
    ]
    hidden = sum(card.key in sitting.chosen.rules.hidden for card in cards)
    return nothing_due(forecast(soon, day), instead, sitting.chosen, hidden)


def _aim(progress: Progress, retention: float, at: datetime) -> str:
    """Change the retention from now on, and return what that means in a sentence."""
    before = progress.weights()
    weights = replace(before, retention=retention)
    if weights == before:
        return f"You aim to recall {retention:.0%} of the cards that come due, as before."
    progress.use_weights(weights, at)
    return (
        f"From now on you aim to recall {retention:.0%} of the cards that come due: "
        f"intervals are {weights.stretch / before.stretch:.2g} times as long as at {before.retention:.0%}. "
        "Cards that are already scheduled keep their day."
    )


def _proven(progress: Progress, day: date) -> set[str]:
    """Return the concepts that answers to questions have proven strong."""
    return {name for name, known in strengths(progress.last_answers(), day).items() if known.label is Label.STRONG}
