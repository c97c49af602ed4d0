"""Which cards a sitting asks, and which come back on the same day."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import Enum, auto
from types import MappingProxyType

from ddpquiz.curriculum.concept import Card
from ddpquiz.learning.schedule import Grade, Memory

GAP = 5  # cards between a forgotten card and its return
MORE = 10  # new cards that are added at once when a limit holds back others
_STUCK_AFTER = 4  # times forgotten; then the card's demo helps more than the card


class Return(Enum):
    """Whether and when a card is asked again on the same day."""

    NO = auto()
    SOON = auto()  # after a few others
    LAST = auto()  # at the end of the sitting
    ASIDE = auto()  # no: it was forgotten so often that its demo helps more


@dataclass(frozen=True, slots=True, kw_only=True)
class DealRules:
    """How many cards a sitting asks, and which."""

    limit: int
    new: int  # new cards
    cram: bool = False  # all cards that were seen count as due, the next to be forgotten first, and none is new
    hidden: Collection[str] = ()  # cards that are left out
    proven: Collection[str] = ()  # concepts whose new cards are left out
    earlier: Mapping[str, Sequence[Grade]] = field(default_factory=dict)  # grades of this day, before this sitting


@dataclass(frozen=True, slots=True)
class Deal:
    """The cards of a sitting, and how many others were held back."""

    rules: DealRules
    cards: tuple[Card, ...]
    due_held: int = 0  # by the limit of the sitting
    later: int = 0  # new cards of this day that the limit of the sitting held back
    held: tuple[Card, ...] = ()  # new cards that any limit held back, in learning order
    proven_held: int = 0  # new cards of concepts that were proven strong

    @property
    def of_other_days(self) -> int:
        """How many new cards the limit of the day held back."""
        return len(self.held) - self.later


def deal(cards: Sequence[Card], memories: Mapping[str, Memory], day: date, rules: DealRules) -> Deal:
    """Choose the cards of a sitting from `cards`, which are in learning order.

    Overdue cards come first, then those due today, then new ones; among each, a concept comes after what it needs. A
    limit holds back the least overdue. What an earlier sitting of the day would have asked again is asked here.
    """
    asked = [(card, card.key) for card in cards if card.key not in rules.hidden]
    seen = [(card, memories[key]) for card, key in asked if key in memories]
    if rules.cram:
        seen.sort(key=lambda pair: pair[1].due)
        return Deal(rules, tuple(card for card, _ in seen[: rules.limit]), max(0, len(seen) - rules.limit))
    again = _returns(memories, rules.earlier)
    soon = [card for card, key in asked if again.get(key) is Return.SOON][: rules.limit]
    last = [card for card, key in asked if again.get(key) is Return.LAST][: rules.limit - len(soon)]
    room = rules.limit - len(soon) - len(last)
    due = [(card, memory) for card, memory in seen if memory.due <= day and card.key not in again]
    chosen = _due_first(due, day, room, cards)
    unseen = [card for card, key in asked if key not in memories]
    fresh = [card for card in unseen if card.concept not in rules.proven]
    of_today = fresh[: max(0, rules.new)]
    new_cards = of_today[: room - len(chosen)]
    once = (*chosen, *new_cards)
    return Deal(
        rules,
        (*once[:GAP], *soon, *once[GAP:], *last),
        due_held=len(due) - len(chosen),
        later=len(of_today) - len(new_cards),
        held=tuple(fresh[len(new_cards) :]),
        proven_held=len(unseen) - len(fresh),
    )


def _due_first(due: list[tuple[Card, Memory]], day: date, room: int, cards: Sequence[Card]) -> list[Card]:
    """Return the most overdue cards that there is room for: overdue ones, then those of today, in learning order."""
    place = {concept: number for number, concept in enumerate(dict.fromkeys(card.concept for card in cards))}
    chosen = sorted(due, key=lambda pair: pair[1].due)[:room]
    return [card for card, _ in sorted(chosen, key=lambda pair: (pair[1].due == day, place[pair[0].concept]))]


def should_return(grades: Sequence[Grade], lapses: int) -> Return:
    """Return whether a card with these grades of one day, oldest first, is asked again on that day.

    A forgotten card returns until it is recalled, a hard one returns once.
    """
    if not grades or grades[-1] not in (Grade.AGAIN, Grade.HARD):
        return Return.NO
    if grades[-1].forgot:
        return Return.ASIDE if max(grades.count(Grade.AGAIN), lapses) >= _STUCK_AFTER else Return.SOON
    return Return.LAST if grades.count(Grade.HARD) == 1 else Return.NO


def due_soon(memories: Mapping[str, Memory], day: date, days: int = 7) -> list[int]:
    """Return how many cards come due on each of the next days, without those that are due now."""
    due = Counter((memory.due - day).days for memory in memories.values())
    return [due[ahead] for ahead in range(1, days + 1)]


def due_now(
    memories: Mapping[str, Memory], day: date, graded: Mapping[str, Sequence[Grade]] = MappingProxyType({})
) -> int:
    """Return how many cards are due today or were due before.

    Cards `graded` on this day that come again are counted by `coming_again` instead; those set aside are not counted.
    """
    again = _returns(memories, graded)
    return sum(memory.due <= day and key not in again for key, memory in memories.items())


def coming_again(memories: Mapping[str, Memory], graded: Mapping[str, Sequence[Grade]]) -> int:
    """Return how many of the cards that were `graded` on this day are asked again on it."""
    return sum(when in (Return.SOON, Return.LAST) for when in _returns(memories, graded).values())


def _returns(memories: Mapping[str, Memory], graded: Mapping[str, Sequence[Grade]]) -> dict[str, Return]:
    """Return the cards that their grades of this day bring back or set aside."""
    found = {key: should_return(grades, memories[key].lapses) for key, grades in graded.items() if key in memories}
    return {key: when for key, when in found.items() if when is not Return.NO}
