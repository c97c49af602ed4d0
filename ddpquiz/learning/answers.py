"""How an answer becomes a row of the log: one rule for a quiz and for the prediction of a demo."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from ddpquiz.curriculum.concept import Kind, Question
from ddpquiz.curriculum.posed import Posed, filled
from ddpquiz.learning.judge import chance, judge
from ddpquiz.learning.quiz import card_to_call
from ddpquiz.learning.schedule import study_day

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from ddpquiz.curriculum.concept import Card, Question
    from ddpquiz.learning.log_rows import Receipt
    from ddpquiz.learning.progress import Progress


class SavedAnswer(NamedTuple):
    """The row of an answer, and the card that it made due, if any."""

    receipt: Receipt
    called: str | None


def save_answer(
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
) -> SavedAnswer:
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
    return SavedAnswer(receipt, called)


_VALUE = r"\w+=-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_DRAWN = re.compile(  # a number in any form; "Wrap with static_graph=True" is the text of an option
    rf"(?=\W*(?:\d|sqrt|log2))(.*) with ({_VALUE}(?:, {_VALUE})*)", re.DOTALL | re.IGNORECASE
)


def worded(posed: Posed, given: str, chosen: Sequence[int] = ()) -> str:
    """Return what the log keeps of an answer: the texts that were `chosen` by their places, or what was typed."""
    shown = posed.question.options or posed.question.lines
    if chosen and shown:
        texts = [shown[posed.shown[place]].text for place in chosen]
        return texts[0] if posed.question.kind is Kind.CHOICE else json.dumps(texts, ensure_ascii=False)
    if posed.values and given:
        return f"{given} with {', '.join(f'{name}={value}' for name, value in posed.values.items())}"
    return given


class Misconception(NamedTuple):
    """A belief behind a wrong answer: as the content tells it, and what was shown, asked and given there."""

    belief: str
    why: str
    ask: str
    given: str


def parted(kept: str) -> tuple[str, str]:
    """Return an answer as the log keeps it and the values that its question had, or nothing."""
    drawn = _DRAWN.fullmatch(kept)
    return (drawn[1], drawn[2]) if drawn else (kept, "")


def beliefs(question: Question, kept: str) -> list[Misconception]:
    """Return the beliefs behind a wrong answer as the log keeps it.

    None is known when the answer shows none, or the question has been changed since.
    """
    if question.kind in (Kind.CHOICE, Kind.CHOICES):
        texts = _texts(kept) if question.kind is Kind.CHOICES else [kept]
        chosen = [option for option in question.options if option.text in texts and option.why]
        return [Misconception(option.why, option.why, question.ask, option.text) for option in chosen]
    values: dict[str, str] = {}
    if question.variables:
        kept, drawn = parted(kept)
        values = dict(each.split("=") for each in drawn.split(", ") if drawn)
    if values.keys() != {variable.name for variable in question.variables}:
        return []
    asked = filled(question, values) if values else question
    whys = judge(Posed(asked, values, tuple(range(len(question.lines)))), kept).whys
    return [
        Misconception(trap.why, shown.why, asked.ask, kept)
        for trap, shown in zip(question.traps, asked.traps, strict=True)
        if trap.why and shown.why in whys
    ]


def _texts(kept: str) -> list[object]:
    try:
        told = json.loads(kept)
    except ValueError:
        return []
    return told if isinstance(told, list) else []
