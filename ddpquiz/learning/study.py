"""One sitting with cards: what is dealt, and what each key does to it. Old state and event in, new state out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING

from ddpquiz.learning.schedule import Grade, Memory, Schedule, study_day

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime, timedelta

    from ddpquiz.curriculum.concept import Card

_GAP = 5  # cards between a forgotten card and its return
_STUCK_AFTER = 4  # times forgotten; then the card's demo helps more than the card


class Act(Enum):
    """What can happen in a sitting besides a grade."""

    SHOW = auto()
    SKIP = auto()
    UNDO = auto()
    BACK = auto()  # the learner returns from a demo; the time away was no thinking about the card
    STOP = auto()


Event = Act | Grade


@dataclass(frozen=True, slots=True)
class Review:
    """A graded card, and the memory of it before and after."""

    card: Card
    grade: Grade
    at: datetime
    took: timedelta
    before: Memory | None
    after: Memory

    @property
    def days(self) -> int:
        """Days until the card comes back; 0 is today."""
        return (self.after.due - study_day(self.at)).days


@dataclass(frozen=True, slots=True)
class Deal:
    """The cards of a sitting, and how many more were wanted but held back by a limit."""

    cards: tuple[Card, ...]
    due_held: int = 0
    new_held: int = 0


@dataclass(frozen=True, slots=True)
class Sitting:
    """Where a sitting stands: the first card of `queue` is on screen, with its back if `shown`."""

    schedule: Schedule
    memories: Mapping[str, Memory]
    deal: Deal
    queue: tuple[Card, ...]
    since: datetime  # when this card came on screen
    buttons: tuple[Grade, ...] = tuple(Grade)
    shown: bool = False
    stopped: bool = False
    reviews: tuple[Review, ...] = ()
    previous: Sitting | None = field(default=None, repr=False, compare=False)  # what undo goes back to

    @property
    def card(self) -> Card | None:
        """The card on screen, or None when the sitting is over."""
        return None if self.stopped or not self.queue else self.queue[0]

    @property
    def place(self) -> int:
        """The number of the card on screen among those dealt."""
        seen = {review.card.key for review in self.reviews}
        return len(self.deal.cards) - sum(card.key not in seen for card in self.queue[1:])

    @property
    def coming_again(self) -> int:
        """How many of the cards ahead were forgotten in this sitting."""
        seen = {review.card.key for review in self.reviews}
        return sum(card.key in seen for card in self.queue[1:])

    @property
    def called(self) -> bool:
        """Whether the card on screen was never seen, but made due by a wrong answer."""
        memory = self.memories.get(self.queue[0].key)
        return memory is not None and memory.stability is None

    @property
    def stuck(self) -> Card | None:
        """The card just graded, if it was forgotten too often to be asked once more."""
        last = self.reviews[-1] if self.reviews else None
        return last.card if last and _is_stuck(last, self.reviews) else None

    def preview(self, day: date) -> dict[Grade, int]:
        """Return for each button in how many days the card on screen would come back."""
        card = self.queue[0]
        days = self.schedule.preview(card.key, self.memories.get(card.key), day)
        return {grade: days[grade] for grade in self.buttons}


def deal(
    cards: Sequence[Card], memories: Mapping[str, Memory], day: date, *, limit: int, new: int, cram: bool = False
) -> Deal:
    """Choose the cards of a sitting: those due, the longest overdue first, then new ones in learning order.

    With `cram` all cards that were seen count as due, the next to be forgotten first.
    """
    known = [card for card in cards if card.key in memories]
    due = [card for card in known if cram or memories[card.key].due <= day]
    due.sort(key=lambda card: memories[card.key].due)  # stable: cards of one day stay in learning order
    fresh = [card for card in cards if card.key not in memories]
    taken = due[:limit]
    taken_new = fresh[: max(0, min(new, limit - len(taken)))]
    return Deal((*taken, *taken_new), len(due) - len(taken), len(fresh) - len(taken_new))


def begin(
    dealt: Deal, memories: Mapping[str, Memory], schedule: Schedule, at: datetime, *, two_buttons: bool = False
) -> Sitting:
    """Return a sitting with the first card on screen."""
    buttons = (Grade.AGAIN, Grade.GOOD) if two_buttons else tuple(Grade)
    return Sitting(schedule, memories, dealt, dealt.cards, at, buttons)


def step(sitting: Sitting, event: Event, at: datetime) -> Sitting:
    """Return what a sitting becomes by an event; one that means nothing now changes nothing."""
    match event:
        case Act.UNDO if sitting.previous:
            return replace(sitting.previous, since=at)
        case Act.BACK:
            return replace(sitting, since=at)
        case _ if sitting.card is None:
            return sitting
        case Act.SHOW:
            return replace(sitting, shown=True)
        case Act.SKIP:
            return replace(sitting, queue=sitting.queue[1:], shown=False, since=at, previous=sitting)
        case Act.STOP:
            return replace(sitting, stopped=True)
        case Grade() if sitting.shown and event in sitting.buttons:
            return _graded(sitting, sitting.card, event, at)
    return sitting


def news(old: Sitting, new: Sitting) -> tuple[Review | None, Review | None]:
    """Return the review that a step added and the one that it took back: what the log is to learn."""
    count, before = len(new.reviews), len(old.reviews)
    return new.reviews[-1] if count > before else None, old.reviews[-1] if count < before else None


@dataclass(frozen=True, slots=True)
class Summary:
    """What a sitting came to."""

    cards: int  # different ones
    new: int  # those of them never heard of before; a wrong answer may have made others due unseen
    known: int  # cards that had been learned before this sitting
    recalled: int  # those of them recalled at first sight
    pace: timedelta | None  # the median time for a card
    wanting: str | None  # the concept of which most was forgotten at first sight


def sum_up(sitting: Sitting) -> Summary:
    """Return what a sitting came to so far."""
    first = {review.card.key: review for review in reversed(sitting.reviews)}.values()
    known = [review for review in first if review.before and review.before.stability is not None]
    forgotten = Counter(review.card.concept for review in first if review.grade.should_come_back)
    times = sorted(review.took for review in sitting.reviews)
    return Summary(
        cards=len(first),
        new=sum(review.before is None for review in first),
        known=len(known),
        recalled=sum(not review.grade.should_come_back for review in known),
        pace=times[len(times) // 2] if times else None,
        wanting=max(sorted(forgotten), key=lambda concept: forgotten[concept], default=None),
    )


def due_soon(memories: Mapping[str, Memory], day: date, days: int = 7) -> list[int]:
    """Return how many cards come due on each of the days after today; those that are due already count for none."""
    due = Counter((memory.due - day).days for memory in memories.values())
    return [due[ahead] for ahead in range(1, days + 1)]


def due_now(memories: Mapping[str, Memory], day: date) -> int:
    """Return how many cards are due today or were due before."""
    return sum(memory.due <= day for memory in memories.values())


def _graded(sitting: Sitting, card: Card, grade: Grade, at: datetime) -> Sitting:
    before = sitting.memories.get(card.key)
    after = sitting.schedule.review(card.key, before, grade, study_day(at))
    reviews = (*sitting.reviews, Review(card, grade, at, at - sitting.since, before, after))
    rest = sitting.queue[1:]
    if grade.should_come_back and not _is_stuck(reviews[-1], reviews):
        rest = (*rest[:_GAP], card, *rest[_GAP:])
    return replace(
        sitting,
        memories={**sitting.memories, card.key: after},
        queue=rest,
        since=at,
        shown=False,
        reviews=reviews,
        previous=sitting,
    )


def _is_stuck(review: Review, reviews: Sequence[Review]) -> bool:
    forgotten = sum(other.card.key == review.card.key and other.grade.should_come_back for other in reviews)
    return review.grade.should_come_back and max(forgotten, review.after.lapses) >= _STUCK_AFTER
