"""Answers in the log: saving those of a quiz or a prediction, and finding the beliefs behind wrong ones."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import NamedTuple

from ddpquiz.curriculum.concept import Card, Concept, Kind, Question
from ddpquiz.curriculum.posed_question import Posed, pose_with
from ddpquiz.curriculum.question_code import script_lines
from ddpquiz.learning.judge import chance, judge
from ddpquiz.learning.log_rows import AnswerRow, Receipt
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.quiz import Answer
from ddpquiz.learning.schedule import Memory, study_day


class SavedAnswer(NamedTuple):
    """The receipt of an answer, and the card that it made due, if any."""

    receipt: Receipt
    made_due_card: str | None


def save_answer(progress: Progress, answer: Answer, cards: Sequence[Card], *, retry: bool = False) -> SavedAnswer:
    """Save an answer; a wrong one makes a card due that is linked to the question, unless it is a retry.

    A question makes at most one card due on one day.
    """
    question = answer.posed.question
    made_due_card = None if answer.right or retry else card_of_mistake(progress, question, cards, answer.at)
    row = AnswerRow(
        item=question.key,
        credit=answer.credit,
        took=answer.took,
        given=answer_text(answer.posed, answer.given, answer.verdict.chosen),
        level=question.level,
        chance=chance(question),
        made_due_card=made_due_card,
        retry=retry,
        confidence=answer.confidence,
    )
    return SavedAnswer(progress.answer(row, answer.at), made_due_card)


def card_of_mistake(progress: Progress, question: Question, cards: Sequence[Card], at: datetime) -> str | None:
    """The card that a wrong answer makes due now; None if no card can be, or the question has made one due today."""
    day = study_day(at)
    if progress.has_made_due(question.key, day):
        return None
    hidden = progress.hidden(day)
    offered = [card for card in cards if card.key not in hidden]
    return card_to_make_due(question, offered, progress.memories(question.concept), day)


def card_to_make_due(
    question: Question, cards: Sequence[Card], memories: Mapping[str, Memory], day: date
) -> str | None:
    """The card that a wrong answer makes due; None if no card is linked to the question.

    Of several it is the first that is neither due already nor was reviewed today, if possible.
    """

    def rank(card: Card) -> tuple[bool, bool]:
        memory = memories.get(card.key)
        return (memory.due <= day, memory.last == day) if memory else (False, False)

    best = min(linked_cards(question, cards), key=rank, default=None)
    return best.key if best else None


def linked_cards(question: Question, cards: Sequence[Card]) -> list[Card]:
    """The cards that say what a question asks: those that it proves, and the one that it names."""
    own = [card for card in cards if card.concept == question.concept]
    return [card for card in own if card.proof == question.id or card.id == question.card]


class AnswerLog:
    """The answers that one sitting has saved; each can be undone until `close`."""

    def __init__(
        self, progress: Progress, concepts: Mapping[str, Concept], saved: Mapping[str, SavedAnswer] | None = None
    ) -> None:
        self._progress = progress
        self._concepts = concepts
        self._saved = dict(saved or {})  # by question
        self._made_due: set[str] = set()  # cards made due before a retry

    @property
    def made_due(self) -> int:
        """How many cards became due."""
        return len(self._cards_made_due())

    @property
    def saved(self) -> Mapping[str, SavedAnswer]:
        """What was saved, by question."""
        return self._saved

    def append(self, answer: Answer, *, retry: bool) -> None:
        """Save an answer; a wrong one makes a card due that is linked to the question."""
        question = answer.posed.question
        concept = self._concepts.get(question.concept)
        cards = concept.cards if concept else ()
        self._saved[question.key] = save_answer(self._progress, answer, cards, retry=retry)

    def undo(self, answer: Answer, at: datetime) -> None:
        self._progress.undo(self._saved.pop(answer.posed.question.key).receipt, at)

    def close(self) -> None:
        """Make all answers so far final, as a retry does."""
        self._made_due = self._cards_made_due()
        self._saved.clear()

    def _cards_made_due(self) -> set[str]:
        return self._made_due | {saved.made_due_card for saved in self._saved.values() if saved.made_due_card}


_VALUE = r"\w+=-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_DRAWN = re.compile(  # a number in any form; "Wrap with static_graph=True" is an option, not a value that was drawn
    rf"(?=\W*(?:\d|sqrt|log2))(.*) with ({_VALUE}(?:, {_VALUE})*)", re.DOTALL | re.IGNORECASE
)


def answer_text(posed: Posed, given: str, chosen: Sequence[int] = ()) -> str:
    """An answer as the log holds it: the texts at the `chosen` places, or what was typed."""
    shown = posed.question.options or posed.question.lines
    if chosen and posed.question.kind is Kind.SPOT:
        return script_lines(posed.question)[chosen[0]].strip()
    if chosen and shown:
        texts = [shown[posed.shown[place]].text for place in chosen]
        return texts[0] if posed.question.kind is Kind.CHOICE else json.dumps(texts, ensure_ascii=False)
    if posed.values and given:
        return f"{given} with {', '.join(f'{name}={value}' for name, value in posed.values.items())}"
    return given


class Misconception(NamedTuple):
    """A belief behind a wrong answer: as the content states it, and the explanation, question and answer as shown."""

    belief: str
    why: str
    ask: str
    given: str


def split_values(text: str) -> tuple[str, str]:
    """Split an answer in the log into what was typed and the values that its question had, "" if it had none."""
    drawn = _DRAWN.fullmatch(text)
    return (drawn[1], drawn[2]) if drawn else (text, "")


def beliefs(question: Question, text: str) -> list[Misconception]:
    """The beliefs behind the text of a wrong answer in the log.

    The list is empty when the answer shows no belief that is known, or the question was changed since.
    """
    if question.kind in (Kind.CHOICE, Kind.CHOICES):
        texts = _texts(text) if question.kind is Kind.CHOICES else [text]
        chosen = [option for option in question.options if option.text in texts and option.why]
        return [Misconception(option.why, option.why, question.ask, option.text) for option in chosen]
    values: dict[str, str] = {}
    if question.variables:
        text, drawn = split_values(text)
        values = dict(each.split("=") for each in drawn.split(", ") if drawn)
    if values.keys() != {variable.name for variable in question.variables}:
        return []
    try:
        is_number = question.kind is Kind.NUMBER
        posed = pose_with(question, values) if is_number else Posed(question, {}, tuple(range(len(question.lines))))
    except (ValueError, OverflowError):  # values for which the question has no answer, such as no ranks
        return []
    whys = judge(posed, text).whys
    return [
        Misconception(trap.why, shown.why, posed.question.ask, text)
        for trap, shown in zip(question.traps, posed.question.traps, strict=True)
        if trap.why and shown.why in whys
    ]


def with_hint_at_mistake(question: Question, text: str) -> Question:
    """A question whose first hint says why an earlier wrong answer to it is wrong; `text` is that of the log.

    It stays as it is where the belief behind that answer is not known.
    """
    known = beliefs(question, text)
    if not known:
        return question
    given = f'"{known[0].given}"' if len(known) == 1 and "\n" not in known[0].given else "something else"
    hint = " ".join((f"Last time you answered {given}.", *(one.why for one in known)))
    if question.kind is Kind.NUMBER:  # its texts are filled with other values now
        hint = hint.replace("{", "{{").replace("}", "}}")
    return replace(question, hints=(hint, *question.hints))


def _texts(text: str) -> list[object]:
    try:
        texts = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return texts if isinstance(texts, list) else []
