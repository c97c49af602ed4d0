"""One sitting with cards: what is dealt, and what each key does to it. Old state and event in, new state out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from types import MappingProxyType
from typing import TYPE_CHECKING

from ddpquiz.learning.schedule import Grade, Memory, Schedule, study_day

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date, datetime, timedelta

    from ddpquiz.curriculum.concept import Card

_GAP = 5  # cards between a forgotten card and its return
_STUCK_AFTER = 4  # times forgotten; then the card's demo helps more than the card
MORE = 10  # new cards that are taken at once when a limit holds back others


class StudyAction(Enum):
    """What can happen in a sitting besides a grade."""

    SHOW = auto()
    SKIP = auto()
    SUSPEND = auto()  # hide the card until it is restored
    BURY = auto()  # hide it until tomorrow
    UNDO = auto()
    MORE = auto()  # when no card is left: take some of the new cards that a limit held back
    BACK = auto()  # the learner returns from a demo; the time away was no thinking about the card
    STOP = auto()


Event = StudyAction | Grade


class Return(Enum):
    """Whether a card is asked once more on the same day."""

    NO = auto()
    SOON = auto()  # after a few others
    LAST = auto()  # at the end of the sitting
    ASIDE = auto()  # no: it was forgotten so often that its demo helps more


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
    """A card that is not to be asked for a while: suspended or buried."""

    card: Card
    act: StudyAction


Done = Review | Hiding


@dataclass(frozen=True, slots=True)
class Deal:
    """The cards of a sitting, and how many more were wanted but held back."""

    cards: tuple[Card, ...]
    due_held: int = 0  # by the limit of the sitting
    later: int = 0  # new cards of this day that the limit of the sitting held back
    held: tuple[Card, ...] = ()  # new cards that any limit held back, in learning order
    proven_held: int = 0  # new cards of concepts that were proven strong

    @property
    def of_other_days(self) -> int:
        """How many new cards the limit of the day held back."""
        return len(self.held) - self.later


@dataclass(frozen=True, slots=True)
class Sitting:
    """Where a sitting stands: the first card of `queue` is on screen, with its back if `shown`."""

    schedule: Schedule
    known: Mapping[str, Memory]  # before this sitting
    deal: Deal
    queue: tuple[Card, ...]
    since: datetime  # when this card came on screen
    buttons: tuple[Grade, ...] = tuple(Grade)
    cram: bool = False  # grades change no memory
    earlier: Mapping[str, Sequence[Grade]] = field(default_factory=dict)  # grades of this day, before this sitting
    shown: bool = False
    stopped: bool = False
    learned: Mapping[str, Memory] = field(default_factory=dict)  # in this sitting
    done: tuple[Done, ...] = ()
    previous: Sitting | None = field(default=None, repr=False, compare=False)  # what undo goes back to

    @property
    def memories(self) -> Mapping[str, Memory]:
        """What is known of each card now."""
        return {**self.known, **self.learned}

    @property
    def reviews(self) -> tuple[Review, ...]:
        """The grades that were given, oldest first."""
        return tuple(one for one in self.done if isinstance(one, Review))

    @property
    def card(self) -> Card | None:
        """The card on screen, or None when the sitting is over."""
        return None if self.stopped or not self.queue else self.queue[0]

    @property
    def count(self) -> int:
        """How many of the cards dealt were not asked on this day before this sitting."""
        return sum(card.key not in self.earlier for card in self.deal.cards)

    @property
    def place(self) -> int:
        """The number of the card on screen, or of the last before it that was not asked once more, among these."""
        return self.count - sum(not self.grades(card) for card in self.queue[1:])

    @property
    def is_again(self) -> bool:
        """Whether the card on screen was asked on this day already."""
        return bool(self.grades(self.queue[0]))

    @property
    def share(self) -> float:
        """The share of the cards dealt that are done with."""
        return 1 - len(self.queue) / max(1, len(self.deal.cards))

    @property
    def coming_again(self) -> int:
        """How many of the cards ahead were asked on this day already."""
        return sum(bool(self.grades(card)) for card in self.queue[1:])

    @property
    def called(self) -> bool:
        """Whether the card on screen was never seen, but made due by a wrong answer."""
        memory = self.memory(self.queue[0])
        return memory is not None and memory.stability is None

    @property
    def last(self) -> Done | None:
        """What was done to the card before this one; None when it was skipped, or when there was none."""
        return news(self.previous, self)[0] if self.previous else None

    @property
    def stuck(self) -> Card | None:
        """The card just graded, if it was forgotten too often to be asked once more."""
        last = self.last
        return last.card if isinstance(last, Review) and last.again is Return.ASIDE else None

    def memory(self, card: Card) -> Memory | None:
        """Return what is known of a card now."""
        return self.learned.get(card.key) or self.known.get(card.key)

    def grades(self, card: Card) -> tuple[Grade, ...]:
        """Return the grades of a card on this day, oldest first."""
        here = (review.grade for review in self.reviews if review.card.key == card.key)
        return (*self.earlier.get(card.key, ()), *here)

    def preview(self, day: date) -> dict[Grade, int]:
        """Return for each button in how many days the card on screen would come back."""
        card = self.queue[0]
        days = self.schedule.preview(card.key, self.memory(card), day)
        return {grade: days[grade] for grade in self.buttons}


def deal(
    cards: Sequence[Card],
    memories: Mapping[str, Memory],
    day: date,
    *,
    limit: int,
    new: int,
    cram: bool = False,
    hidden: Collection[str] = (),
    proven: Collection[str] = (),
    earlier: Mapping[str, Sequence[Grade]] | None = None,
) -> Deal:
    """Choose the cards of a sitting from those given, which stand in learning order.

    Overdue cards come first, then those due today, then new ones; among each, a concept comes after what it needs. A
    limit holds back the least overdue. What an `earlier` sitting of the day would have asked again is asked here.
    `hidden` items are left out, and so are new cards of `proven` concepts. With `cram` all cards that were seen count
    as due, the next to be forgotten first, and none is new.
    """
    asked = [(card, card.key) for card in cards]  # a key is put together each time it is read
    asked = [(card, key) for card, key in asked if key not in hidden]
    seen = [(card, memories[key]) for card, key in asked if key in memories]
    if cram:
        seen.sort(key=lambda pair: pair[1].due)
        return Deal(tuple(card for card, _ in seen[:limit]), max(0, len(seen) - limit))
    again = _returns(memories, earlier or {})
    returning = [(card, again[key]) for card, key in asked if key in again]
    soon, last = ([card for card, when in returning if when is what] for what in (Return.SOON, Return.LAST))
    soon = soon[:limit]
    last = last[: limit - len(soon)]
    due = [(card, memory) for card, memory in seen if memory.due <= day]
    due = [(card, memory) for card, memory in due if again.get(card.key, Return.NO) is Return.NO]
    due.sort(key=lambda pair: pair[1].due)
    room = limit - len(soon) - len(last)
    place = {concept: number for number, concept in enumerate(dict.fromkeys(card.concept for card in cards))}
    chosen = sorted(due[:room], key=lambda pair: (pair[1].due == day, place[pair[0].concept]))
    taken = [card for card, _ in chosen]
    unseen = [card for card, key in asked if key not in memories]
    fresh = [card for card in unseen if card.concept not in proven]
    of_today = fresh[: max(0, new)]
    taken_new = of_today[: room - len(taken)]
    once = (*taken, *taken_new)
    return Deal(
        (*once[:_GAP], *soon, *once[_GAP:], *last),
        len(due) - len(taken),
        len(of_today) - len(taken_new),
        tuple(fresh[len(taken_new) :]),
        len(unseen) - len(fresh),
    )


def should_return(grades: Sequence[Grade], lapses: int) -> Return:
    """Say whether a card with these grades of one day, oldest first, is asked once more on that day.

    What was forgotten returns until it is recalled; what was hard returns once.
    """
    if not grades or grades[-1] not in (Grade.AGAIN, Grade.HARD):
        return Return.NO
    if grades[-1].forgot:
        return Return.ASIDE if max(grades.count(Grade.AGAIN), lapses) >= _STUCK_AFTER else Return.SOON
    return Return.LAST if grades.count(Grade.HARD) == 1 else Return.NO


def begin(
    dealt: Deal,
    memories: Mapping[str, Memory],
    schedule: Schedule,
    at: datetime,
    *,
    two_buttons: bool = False,
    cram: bool = False,
    earlier: Mapping[str, Sequence[Grade]] | None = None,
) -> Sitting:
    """Return a sitting with the first card on screen."""
    buttons = (Grade.AGAIN, Grade.GOOD) if two_buttons else tuple(Grade)
    return Sitting(schedule, memories, dealt, dealt.cards, at, buttons, cram, {} if cram else earlier or {})


def step(sitting: Sitting, event: Event, at: datetime) -> Sitting:
    """Return what a sitting becomes by an event; one that means nothing now changes nothing."""
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
    """Return what a step added and what it took back: what the log is to learn."""
    count, before = len(new.done), len(old.done)
    return new.done[-1] if count > before else None, old.done[-1] if count < before else None


@dataclass(frozen=True, slots=True)
class StudySummary:
    """What a sitting came to."""

    cards: int  # different ones
    new: int  # those of them never heard of before; a wrong answer may have made others due unseen
    known: int  # cards that were learned on an earlier day
    recalled: int  # those of them recalled at first sight
    pace: timedelta | None  # the median time for a card
    wanting: str | None  # the concept of which most was forgotten at first sight


def sum_up(sitting: Sitting) -> StudySummary:
    """Return what a sitting came to so far."""
    first = {review.card.key: review for review in reversed(sitting.reviews)}.values()
    known = [review for review in first if _was_learned(review)]
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


def _was_learned(review: Review) -> bool:
    """Whether a card was learned on a day before this one."""
    before = review.before
    return before is not None and before.stability is not None and before.last != study_day(review.at)


def due_soon(memories: Mapping[str, Memory], day: date, days: int = 7) -> list[int]:
    """Return how many cards come due on each of the days after today; those that are due already count for none."""
    due = Counter((memory.due - day).days for memory in memories.values())
    return [due[ahead] for ahead in range(1, days + 1)]


def due_now(
    memories: Mapping[str, Memory], day: date, graded: Mapping[str, Sequence[Grade]] = MappingProxyType({})
) -> int:
    """Return how many cards are due today or were due before.

    Of those `graded` on this day, the ones that come again are counted by `coming_again`, and those set aside nowhere.
    """
    again = _returns(memories, graded)
    return sum(memory.due <= day and again.get(key, Return.NO) is Return.NO for key, memory in memories.items())


def coming_again(memories: Mapping[str, Memory], graded: Mapping[str, Sequence[Grade]]) -> int:
    """Return how many of the cards that were `graded` on this day are to be asked once more on it."""
    return sum(when in (Return.SOON, Return.LAST) for when in _returns(memories, graded).values())


def _returns(memories: Mapping[str, Memory], graded: Mapping[str, Sequence[Grade]]) -> dict[str, Return]:
    return {key: should_return(grades, memories[key].lapses) for key, grades in graded.items() if key in memories}


def _graded(sitting: Sitting, card: Card, grade: Grade, at: datetime) -> Sitting:
    before = sitting.memory(card)
    after = before if sitting.cram and before else sitting.schedule.review(card.key, before, grade, study_day(at))
    again = should_return((*sitting.grades(card), grade), after.lapses)
    review = Review(card, grade, at, at - sitting.since, before, after, again)
    rest = sitting.queue[1:]
    if again is Return.SOON:
        rest = (*rest[:_GAP], card, *rest[_GAP:])
    elif again is Return.LAST:
        rest = (*rest, card)
    return replace(_next(sitting, rest, at, review), learned={**sitting.learned, card.key: after})


def _dealt_more(sitting: Sitting, at: datetime) -> Sitting:
    """Go on with new cards that were held back."""
    deal = sitting.deal
    more, held = deal.held[:MORE], deal.held[MORE:]
    deal = replace(deal, cards=(*deal.cards, *more), later=max(0, deal.later - len(more)), held=held)
    return replace(_next(sitting, more, at), deal=deal)


def _next(sitting: Sitting, queue: tuple[Card, ...], at: datetime, *done: Done) -> Sitting:
    """Put the next card on screen; undo comes back to this one."""
    return replace(sitting, queue=queue, shown=False, since=at, done=(*sitting.done, *done), previous=sitting)
