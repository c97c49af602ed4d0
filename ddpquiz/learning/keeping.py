"""How an answer becomes a row of the log: one rule for a quiz and for the prediction of a demo."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ddpquiz.learning.judge import chance
from ddpquiz.learning.quiz import card_to_call
from ddpquiz.learning.schedule import study_day

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from ddpquiz.curriculum.concept import Card, Question
    from ddpquiz.learning.log import Receipt
    from ddpquiz.learning.progress import Progress


class Kept(NamedTuple):
    """The row of an answer, and the card that it made due, if any."""

    receipt: Receipt
    called: str | None


def keep(
    progress: Progress,
    question: Question,
    cards: Sequence[Card],
    at: datetime,
    *,
    right: bool,
    credit: float,
    took: timedelta,
    given: str,
    retry: bool = False,
    confidence: float | None = None,
) -> Kept:
    """Write an answer to the log; a wrong one makes one of the concept's cards due, if it is no retry.

    The same question makes no second card due on one day.
    """
    called, day = None, study_day(at)
    if not right and not retry and not progress.has_called(question.key, day):
        hidden = progress.hidden(day)
        offered = [card for card in cards if card.key not in hidden]
        called = card_to_call(question, offered, progress.memories(question.concept), day)
    receipt = progress.answer(
        question.key,
        credit,
        at,
        took=took,
        given=given,
        level=question.level,
        chance=chance(question),
        calls=called,
        retry=retry,
        confidence=confidence,
    )
    return Kept(receipt, called)
