"""What a sitting with cards came to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddpquiz.learning.schedule import study_day

if TYPE_CHECKING:
    from datetime import timedelta

    from ddpquiz.learning.study import Review, Sitting


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
    before = review.before
    return before is not None and before.stability is not None and before.last != study_day(review.at)
