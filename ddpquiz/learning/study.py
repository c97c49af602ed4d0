"""One sitting with cards: which of them it asks by its rules, which come back today, and what each key does to it.

Old state, event and time in; new state out, with what is to be saved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from enum import Enum, auto
from types import MappingProxyType

from ddpquiz.curriculum.concept import Card
from ddpquiz.learning.log_rows import UNCHANGED, Change
from ddpquiz.learning.schedule import Grade, Memory, Schedule, study_day

GAP = 5  # cards between a forgotten card and its return
MORE = 10  # new cards that are added at once when a limit holds back others
_LEECH_AFTER = 4  # times forgotten; then the card's demo helps more than the card


class Return(Enum):
    """Whether and when a card is asked again on the same day."""

    NO = auto()
    SOON = auto()  # after a few others
    LAST = auto()  # at the end of the sitting
    LEECH = auto()  # no: it was forgotten so often that its demo helps more


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRules:
    """How many cards a sitting asks, and which."""

    limit: int
    new: int  # new cards
    cram: bool = False  # all cards that were seen count as due, the next to be forgotten first, and none is new
    hidden: Collection[str] = ()  # cards that are left out
    proven: Collection[str] = ()  # concepts that were proven strong: their new cards are left out
    unread: Collection[str] = ()  # concepts whose lesson has not begun: their new cards wait for it
    earlier: Mapping[str, Sequence[Grade]] = field(default_factory=dict)  # grades of this day, before this sitting


@dataclass(frozen=True, slots=True)
class CardQueue:
    """The cards of a sitting, and how many others were held back."""

    rules: QueueRules
    cards: tuple[Card, ...]
    due_held: int = 0  # by the limit of the sitting
    later: int = 0  # new cards of this day that the limit of the sitting held back
    held: tuple[Card, ...] = ()  # new cards that any limit held back, in learning order
    proven_held: int = 0  # new cards of concepts that were proven strong
    unread_held: int = 0  # new cards of concepts whose lesson has not begun

    @property
    def of_other_days(self) -> int:
        """How many new cards the limit of the day held back."""
        return len(self.held) - self.later


def choose_cards(cards: Sequence[Card], memories: Mapping[str, Memory], day: date, rules: QueueRules) -> CardQueue:
    """Choose the cards of a sitting from `cards`, which are in learning order.

    Overdue cards come first, then those due today, then new ones; among each, a concept comes after what it needs. A
    limit holds back the least overdue. What an earlier sitting of the day would have asked again is asked here.
    """
    asked = [(card, card.key) for card in cards if card.key not in rules.hidden]
    seen = [(card, memories[key]) for card, key in asked if key in memories]
    if rules.cram:
        seen.sort(key=lambda pair: pair[1].due)
        return CardQueue(rules, tuple(card for card, _ in seen[: rules.limit]), max(0, len(seen) - rules.limit))
    again = _returns(memories, rules.earlier)
    soon = [card for card, key in asked if again.get(key) is Return.SOON][: rules.limit]
    last = [card for card, key in asked if again.get(key) is Return.LAST][: rules.limit - len(soon)]
    room = rules.limit - len(soon) - len(last)
    due = [(card, memory) for card, memory in seen if memory.due <= day and card.key not in again]
    chosen = _due_first(due, day, room, cards)
    never_seen = sort_new([card for card, key in asked if key not in memories], rules.unread, rules.proven)
    fresh = never_seen.offered
    of_today = fresh[: max(0, rules.new)]
    new_cards = of_today[: room - len(chosen)]
    once = (*chosen, *new_cards)
    return CardQueue(
        rules,
        (*once[:GAP], *soon, *once[GAP:], *last),
        due_held=len(due) - len(chosen),
        later=len(of_today) - len(new_cards),
        held=fresh[len(new_cards) :],
        proven_held=never_seen.proven,
        unread_held=never_seen.unread,
    )


@dataclass(frozen=True, slots=True)
class NewCards:
    """Cards never seen: those that study offers, and how many it does not."""

    offered: tuple[Card, ...]
    proven: int  # of concepts that were proven strong
    unread: int  # of concepts whose lesson has not begun


def sort_new(unseen: Sequence[Card], unread: Collection[str], proven: Collection[str]) -> NewCards:
    """Which cards that were never seen are offered: their lesson has begun, and their concept is not proven strong."""
    begun = [card for card in unseen if card.concept not in unread]
    offered = tuple(card for card in begun if card.concept not in proven)
    return NewCards(offered, proven=len(begun) - len(offered), unread=len(unseen) - len(begun))


def _due_first(due: list[tuple[Card, Memory]], day: date, room: int, cards: Sequence[Card]) -> list[Card]:
    """The most overdue cards that there is room for: overdue ones, then those of today, in learning order."""
    place = {concept: number for number, concept in enumerate(dict.fromkeys(card.concept for card in cards))}
    chosen = sorted(due, key=lambda pair: pair[1].due)[:room]
    return [card for card, _ in sorted(chosen, key=lambda pair: (pair[1].due == day, place[pair[0].concept]))]


def should_return(grades: Sequence[Grade], lapses: int) -> Return:
    """Whether a card with these grades of one day, oldest first, is asked again on that day.

    A forgotten card returns until it is recalled, a hard one returns once.
    """
    if not grades or grades[-1] not in (Grade.AGAIN, Grade.HARD):
        return Return.NO
    if grades[-1].forgot:
        return Return.LEECH if max(grades.count(Grade.AGAIN), lapses) >= _LEECH_AFTER else Return.SOON
    return Return.LAST if grades.count(Grade.HARD) == 1 else Return.NO


def due_soon(memories: Mapping[str, Memory], day: date, days: int = 7) -> list[int]:
    """How many cards come due on each of the next days, without those that are due now."""
    due = Counter((memory.due - day).days for memory in memories.values())
    return [due[ahead] for ahead in range(1, days + 1)]


def due_now(
    memories: Mapping[str, Memory], day: date, graded: Mapping[str, Sequence[Grade]] = MappingProxyType({})
) -> int:
    """How many cards are due today or were due before.

    Cards `graded` on this day that come again are counted by `coming_again` instead; those set aside are not counted.
    """
    again = _returns(memories, graded)
    return sum(memory.due <= day and key not in again for key, memory in memories.items())


def coming_again(memories: Mapping[str, Memory], graded: Mapping[str, Sequence[Grade]]) -> int:
    """How many of the cards that were `graded` on this day are asked again on it."""
    return sum(when in (Return.SOON, Return.LAST) for when in _returns(memories, graded).values())


def _returns(memories: Mapping[str, Memory], graded: Mapping[str, Sequence[Grade]]) -> dict[str, Return]:
    """The cards that their grades of this day bring back or set aside."""
    found = {key: should_return(grades, memories[key].lapses) for key, grades in graded.items() if key in memories}
    return {key: when for key, when in found.items() if when is not Return.NO}


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
    chosen: CardQueue
    queue: tuple[Card, ...]
    since: datetime  # when this card came on screen
    buttons: tuple[Grade, ...] = tuple(Grade)
    shown: bool = False
    stopped: bool = False
    learned: Mapping[str, Memory] = field(default_factory=dict)  # in this sitting
    done: tuple[Done, ...] = ()
    last: Done | None = None  # what was done to the card before this one; None if it was skipped or there was none
    previous: Sitting | None = field(default=None, repr=False, compare=False)  # what undo goes back to

    @property
    def cram(self) -> bool:
        """True if grades change no memory."""
        return self.chosen.rules.cram

    @property
    def earlier(self) -> Mapping[str, Sequence[Grade]]:
        """The grades of this day before this sitting; in a cram they do not count."""
        return {} if self.cram else self.chosen.rules.earlier

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
        """How many of the chosen cards were not asked earlier on this day."""
        return sum(card.key not in self.earlier for card in self.chosen.cards)

    @property
    def place(self) -> int:
        """The number of the card on screen among these; a card that comes again has the number of the one before."""
        return self.count - sum(not self.grades(card) for card in self.queue[1:])

    @property
    def share(self) -> float:
        """The share of the chosen cards that are done."""
        return 1 - len(self.queue) / max(1, len(self.chosen.cards))

    @property
    def coming_again(self) -> int:
        """How many of the cards in the queue were already asked on this day."""
        return sum(bool(self.grades(card)) for card in self.queue[1:])

    @property
    def is_made_due(self) -> bool:
        """True if the card on screen was never seen, but made due by a wrong answer."""
        memory = self.memory(self.queue[0])
        return memory is not None and memory.stability is None

    @property
    def leech(self) -> Card | None:
        """The card just graded, if it was forgotten too often to be asked again today."""
        return self.last.card if isinstance(self.last, Review) and self.last.again is Return.LEECH else None

    def memory(self, card: Card) -> Memory | None:
        return self.learned.get(card.key) or self.known.get(card.key)

    def grades(self, card: Card) -> tuple[Grade, ...]:
        """The grades of a card on this day, oldest first."""
        here = (review.grade for review in self.reviews if review.card.key == card.key)
        return (*self.earlier.get(card.key, ()), *here)

    def preview(self, day: date) -> dict[Grade, int]:
        """Return for each button the days until the card on screen would come back."""
        card = self.queue[0]
        days = self.schedule.preview(card.key, self.memory(card), day)
        return {grade: days[grade] for grade in self.buttons}


def begin(
    chosen: CardQueue, memories: Mapping[str, Memory], schedule: Schedule, at: datetime, *, two_buttons: bool = False
) -> Sitting:
    """A sitting with the first card on screen."""
    buttons = (Grade.AGAIN, Grade.GOOD) if two_buttons else tuple(Grade)
    return Sitting(schedule, memories, chosen, chosen.cards, at, buttons)


def step(sitting: Sitting, event: Event, at: datetime) -> tuple[Sitting, Change[Done]]:
    """The sitting after an event, and what is to be saved; an event that means nothing now changes nothing."""
    match event:
        case StudyAction.UNDO if sitting.previous:
            return replace(sitting.previous, since=at), Change(removed=sitting.last)
        case StudyAction.BACK:
            return replace(sitting, since=at), UNCHANGED
        case StudyAction.MORE if not sitting.queue and sitting.chosen.held:
            return _add_more(sitting, at), UNCHANGED
        case _ if sitting.card is None:
            return sitting, UNCHANGED
        case StudyAction.SHOW:
            return replace(sitting, shown=True), UNCHANGED
        case StudyAction.SKIP:
            return _next(sitting, sitting.queue[1:], at), UNCHANGED
        case StudyAction.SUSPEND | StudyAction.BURY:
            hiding = Hiding(sitting.card, event)
            return _next(sitting, sitting.queue[1:], at, hiding), Change(added=hiding)
        case StudyAction.STOP:
            return replace(sitting, stopped=True), UNCHANGED
        case Grade() if sitting.shown and event in sitting.buttons:
            return _graded(sitting, sitting.card, event, at)
    return sitting, UNCHANGED


def _graded(sitting: Sitting, card: Card, grade: Grade, at: datetime) -> tuple[Sitting, Change[Done]]:
    before = sitting.memory(card)
    after = before if sitting.cram and before else sitting.schedule.review(card.key, before, grade, study_day(at))
    again = should_return((*sitting.grades(card), grade), after.lapses)
    review = Review(card, grade, at, at - sitting.since, before, after, again)
    rest = sitting.queue[1:]
    if again is Return.SOON:
        rest = (*rest[:GAP], card, *rest[GAP:])
    elif again is Return.LAST:
        rest = (*rest, card)
    learned = {**sitting.learned, card.key: after}
    return replace(_next(sitting, rest, at, review), learned=learned), Change(added=review)


def _add_more(sitting: Sitting, at: datetime) -> Sitting:
    chosen = sitting.chosen
    more, held = chosen.held[:MORE], chosen.held[MORE:]
    chosen = replace(chosen, cards=(*chosen.cards, *more), later=max(0, chosen.later - len(more)), held=held)
    return replace(_next(sitting, more, at), chosen=chosen)


def _next(sitting: Sitting, queue: tuple[Card, ...], at: datetime, last: Done | None = None) -> Sitting:
    """Put the next card on screen; undo comes back to this one."""
    done = (*sitting.done, last) if last else sitting.done
    return replace(sitting, queue=queue, shown=False, since=at, done=done, last=last, previous=sitting)


@dataclass(frozen=True, slots=True)
class StudySummary:
    """The result of a sitting."""

    cards: int  # without repetitions
    new: int  # those never seen before, without those that a wrong answer had made due
    known: int  # cards that were learned on an earlier day
    recalled: int  # those of them recalled at first sight
    pace: timedelta | None  # the median time for a card
    weakest_concept: str | None  # the concept with most cards forgotten at first sight


def sum_up(sitting: Sitting) -> StudySummary:
    """The result of a sitting so far."""
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
        weakest_concept=max(sorted(forgotten), key=lambda concept: forgotten[concept], default=None),
    )
