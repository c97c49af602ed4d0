"""One sitting with cards: what each key does to it. Old state and event in, new state out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from enum import Enum, auto

from ddpquiz.curriculum.concept import Card
from ddpquiz.learning.deal import GAP, MORE, Deal, Return, should_return
from ddpquiz.learning.schedule import Grade, Memory, Schedule, study_day


class StudyAction(Enum):
    """What can happen in a sitting besides a grade."""

    SHOW = auto()
    SKIP = auto()
    SUSPEND = auto()  # hide the card until it is restored
    BURY = auto()  # hide it until tomorrow
    UNDO = auto()
    MORE = auto()  # when no card is left: add some of the new cards that a limit held back
    BACK = auto()  # the learner returns from a demo; the time away does not count for the card
    STOP = auto()


Event = StudyAction | Grade


@dataclass(frozen=True, slots=True)
class Review:
    """A graded card, and the memory of it before and after."""

    card: Card
    grade: Grade
    at: datetime
    took: timedelta
    before: Memory | None
    after: Memory
    again: Return

    @property
    def days(self) -> int:
        """Days until the card comes back; 0 is today."""
        return (self.after.due - study_day(self.at)).days


@dataclass(frozen=True, slots=True)
class Hiding:
    """A card that was suspended or buried."""

    card: Card
    act: StudyAction


Done = Review | Hiding


@dataclass(frozen=True, slots=True)
class Sitting:
    """The state of a sitting: the first card of `queue` is on screen, with its back if `shown`."""

    schedule: Schedule
    known: Mapping[str, Memory]  # before this sitting
    deal: Deal
    queue: tuple[Card, ...]
    since: datetime  # when this card came on screen
    buttons: tuple[Grade, ...] = tuple(Grade)
    shown: bool = False
    stopped: bool = False
    learned: Mapping[str, Memory] = field(default_factory=dict)  # in this sitting
    done: tuple[Done, ...] = ()
    previous: Sitting | None = field(default=None, repr=False, compare=False)  # what undo goes back to

    @property
    def cram(self) -> bool:
        """True if grades change no memory."""
        return self.deal.rules.cram

    @property
    def earlier(self) -> Mapping[str, Sequence[Grade]]:
        """The grades of this day before this sitting; in a cram they do not count."""
        return {} if self.cram else self.deal.rules.earlier

    @property
    def memories(self) -> Mapping[str, Memory]:
        return {**self.known, **self.learned}

    @property
    def reviews(self) -> tuple[Review, ...]:
        return tuple(one for one in self.done if isinstance(one, Review))

    @property
    def card(self) -> Card | None:
        """The card on screen, or None when the sitting is over."""
        return None if self.stopped or not self.queue else self.queue[0]

    @property
    def count(self) -> int:
        """How many of the dealt cards were not asked earlier on this day."""
        return sum(card.key not in self.earlier for card in self.deal.cards)

    @property
    def place(self) -> int:
        """The number of the card on screen among these; a card that comes again has the number of the one before."""
        return self.count - sum(not self.grades(card) for card in self.queue[1:])

    @property
    def share(self) -> float:
        """The share of the dealt cards that are done."""
        return 1 - len(self.queue) / max(1, len(self.deal.cards))

    @property
    def coming_again(self) -> int:
        """How many of the cards in the queue were already asked on this day."""
        return sum(bool(self.grades(card)) for card in self.queue[1:])

    @property
    def called(self) -> bool:
        """True if the card on screen was never seen, but made due by a wrong answer."""
        memory = self.memory(self.queue[0])
        return memory is not None and memory.stability is None

    @property
    def last(self) -> Done | None:
        """What was done to the card before this one; None if it was skipped or there was none."""
        return news(self.previous, self)[0] if self.previous else None

    @property
    def stuck(self) -> Card | None:
        """The card just graded, if it was forgotten too often to be asked again today."""
        last = self.last
        return last.card if isinstance(last, Review) and last.again is Return.ASIDE else None

    def memory(self, card: Card) -> Memory | None:
        return self.learned.get(card.key) or self.known.get(card.key)

    def grades(self, card: Card) -> tuple[Grade, ...]:
        """Return the grades of a card on this day, oldest first."""
        here = (review.grade for review in self.reviews if review.card.key == card.key)
        return (*self.earlier.get(card.key, ()), *here)

    def preview(self, day: date) -> dict[Grade, int]:
        """Return for each button the days until the card on screen would come back."""
        card = self.queue[0]
        days = self.schedule.preview(card.key, self.memory(card), day)
        return {grade: days[grade] for grade in self.buttons}


def begin(
    dealt: Deal, memories: Mapping[str, Memory], schedule: Schedule, at: datetime, *, two_buttons: bool = False
) -> Sitting:
    """Return a sitting with the first card on screen."""
    buttons = (Grade.AGAIN, Grade.GOOD) if two_buttons else tuple(Grade)
    return Sitting(schedule, memories, dealt, dealt.cards, at, buttons)


def step(sitting: Sitting, event: Event, at: datetime) -> Sitting:
    """Return the sitting after an event; an event that means nothing now changes nothing."""
    match event:
        case StudyAction.UNDO if sitting.previous:
            return replace(sitting.previous, since=at)
        case StudyAction.BACK:
            return replace(sitting, since=at)
        case StudyAction.MORE if not sitting.queue and sitting.deal.held:
            return _dealt_more(sitting, at)
        case _ if sitting.card is None:
            return sitting
        case StudyAction.SHOW:
            return replace(sitting, shown=True)
        case StudyAction.SKIP:
            return _next(sitting, sitting.queue[1:], at)
        case StudyAction.SUSPEND | StudyAction.BURY:
            return _next(sitting, sitting.queue[1:], at, Hiding(sitting.card, event))
        case StudyAction.STOP:
            return replace(sitting, stopped=True)
        case Grade() if sitting.shown and event in sitting.buttons:
            return _graded(sitting, sitting.card, event, at)
    return sitting


def news(old: Sitting, new: Sitting) -> tuple[Done | None, Done | None]:
    """Return what a step added and what it removed, for the log."""
    count, before = len(new.done), len(old.done)
    return new.done[-1] if count > before else None, old.done[-1] if count < before else None


def _graded(sitting: Sitting, card: Card, grade: Grade, at: datetime) -> Sitting:
    before = sitting.memory(card)
    after = before if sitting.cram and before else sitting.schedule.review(card.key, before, grade, study_day(at))
    again = should_return((*sitting.grades(card), grade), after.lapses)
    review = Review(card, grade, at, at - sitting.since, before, after, again)
    rest = sitting.queue[1:]
    if again is Return.SOON:
        rest = (*rest[:GAP], card, *rest[GAP:])
    elif again is Return.LAST:
        rest = (*rest, card)
    return replace(_next(sitting, rest, at, review), learned={**sitting.learned, card.key: after})


def _dealt_more(sitting: Sitting, at: datetime) -> Sitting:
    deal = sitting.deal
    more, held = deal.held[:MORE], deal.held[MORE:]
    deal = replace(deal, cards=(*deal.cards, *more), later=max(0, deal.later - len(more)), held=held)
    return replace(_next(sitting, more, at), deal=deal)


def _next(sitting: Sitting, queue: tuple[Card, ...], at: datetime, *done: Done) -> Sitting:
    """Put the next card on screen; undo comes back to this one."""
    return replace(sitting, queue=queue, shown=False, since=at, done=(*sitting.done, *done), previous=sitting)


@dataclass(frozen=True, slots=True)
class StudySummary:
    """The result of a sitting."""

    cards: int  # without repetitions
    new: int  # those never seen before, without those that a wrong answer had made due
    known: int  # cards that were learned on an earlier day
    recalled: int  # those of them recalled at first sight
    pace: timedelta | None  # the median time for a card
    wanting: str | None  # the concept with most cards forgotten at first sight


def sum_up(sitting: Sitting) -> StudySummary:
    """Return the result of a sitting so far."""
    first = {review.card.key: review for review in reversed(sitting.reviews)}.values()
    known = [  # learned on a day before this one
        review
        for review in first
        if review.before and review.before.stability is not None and review.before.last != study_day(review.at)
    ]
    forgotten = Counter(review.card.concept for review in first if review.grade.forgot)
    times = sorted(review.took for review in sitting.reviews)
    return StudySummary(
        cards=len(first),
        new=sum(review.before is None for review in first),
        known=len(known),
        recalled=sum(not review.grade.forgot for review in known),
        pace=times[len(times) // 2] if times else None,
        wanting=max(sorted(forgotten), key=lambda concept: forgotten[concept], default=None),
    )
