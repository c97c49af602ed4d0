"""Collects what decides which cards are asked: the options, the limit of a day, and what waits for its lesson."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import Card, Concept
from ddpquiz.learning.guided_path import further_cards, further_pages
from ddpquiz.learning.mastery import Label, Strength, strengths
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import NEW_A_DAY, Schedule, new_left, study_day
from ddpquiz.learning.study import QueueRules, Sitting, begin, choose_cards

CARDS_A_SITTING = 20  # unless another number is asked for


@dataclass(frozen=True, kw_only=True)
class StudyChoice:
    """Which cards to ask, and how: what the options of `ddpquiz study` say."""

    concept: Sequence[str] | None = None
    level: str | None = None
    track: str | None = None
    count: int = CARDS_A_SITTING
    new: int | None = None
    retention: float | None = None
    every: bool = False  # also new cards of concepts that were known before, and those that only further pages tell
    taught: bool = False  # only those that the lesson teaches
    cram: bool = False
    two_button: bool = False

    @property
    def a_day(self) -> int | None:
        """New cards per day; None, without a limit, where concepts were named and no number was given."""
        return self.new if self.new is not None else None if self.concept else NEW_A_DAY


def matching_cards(catalog: Catalog, choice: StudyChoice) -> list[Card]:
    """The cards that the options name. UserError for a concept or a track that there is not."""
    concepts = catalog.choose(choice.concept, choice.track)
    cards = [card for concept in concepts for card in (concept.taught_cards if choice.taught else concept.cards)]
    return [card for card in cards if choice.level in (None, card.level)]


def begin_study(
    catalog: Catalog, cards: Sequence[Card], choice: StudyChoice, progress: Progress, at: datetime
) -> Sitting:
    """A sitting that asks some of these cards, with the first one on screen."""
    day, here, a_day = study_day(at), {card.key for card in catalog.cards()}, choice.a_day
    memories = {key: memory for key, memory in progress.memories().items() if key in here}
    hidden, stages = progress.hidden(day), {row.item for row in progress.entries("stage")}
    rules = QueueRules(
        limit=choice.count,
        new=len(cards) if a_day is None else new_left(memories, day, a_day),
        cram=choice.cram,
        hidden=hidden,
        proven=() if choice.every else proven(strengths(progress.last_answers(), day), stages),
        unread=() if choice.concept or choice.track else unread(progress, catalog.concepts),
        earlier=progress.grades(day),
    )
    asked = {key: memory for key, memory in memories.items() if key not in hidden}
    named = choice.concept or choice.track or choice.level or choice.every
    wait = frozenset() if named else waiting(stages, catalog.concepts)
    chosen = choose_cards(
        [card for card in cards if card.key in memories or card.key not in wait], memories, day, rules
    )
    return begin(chosen, asked, Schedule(progress.weights()), at, two_buttons=choice.two_button)


def unread(progress: Progress, concepts: Sequence[Concept]) -> frozenset[str]:
    """The concepts whose new cards wait for their lesson; those of the first one do not wait for it.

    Any row of the log begins the lesson of its concept.
    """
    names = [concept.id for concept in concepts]
    return frozenset(names) - (progress.concepts() & frozenset(names) or frozenset(names[:1]))


def waiting(stages: Collection[str], concepts: Sequence[Concept]) -> frozenset[str]:
    """The cards that only the further pages of a lesson teach, if these are not among the `stages` of the log."""
    unopened = (concept for concept in concepts if further_pages(concept) not in stages)
    return frozenset(card.key for concept in unopened for card in further_cards(concept))


def proven(known: Mapping[str, Strength], stages: Collection[str]) -> set[str]:
    """The concepts that answers to questions have proven strong without a lesson.

    Who followed a lesson, which `stages` of the log tell, may know it for a day; its cards are there to keep it.
    """
    followed = {stage.rpartition("/")[0] for stage in stages}
    return {name for name, strength in known.items() if strength.label is Label.STRONG} - followed
