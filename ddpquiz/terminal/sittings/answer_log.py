"""The answers of a sitting as they are written to the log, and the cards that they made due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddpquiz.learning.answers import SavedAnswer, save_answer, worded

if TYPE_CHECKING:
    from datetime import datetime

    from ddpquiz.learning.quiz import Answer
    from ddpquiz.terminal.sittings.sitting import Desk


class Ledger:
    """What one sitting has written so far; each answer can be undone until `close`."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._saved: dict[str, SavedAnswer] = {}  # by question
        self._before: list[str] = []  # cards called before a retry

    @property
    def called(self) -> int:
        """How many cards became due."""
        return len({*self._before, *(saved.called for saved in self._saved.values() if saved.called)})

    def append(self, answer: Answer, at: datetime, *, retry: bool) -> None:
        """Write an answer to the log; a wrong one makes a card of its concept due."""
        question = answer.posed.question
        concept = self._desk.concepts.get(question.concept)
        self._saved[question.key] = save_answer(
            self._desk.progress,
            question,
            concept.cards if concept else (),
            at,
            right=answer.right,
            credit=answer.credit,
            took=answer.took,
            given=worded(answer.posed, answer.given, answer.verdict.chosen),
            retry=retry,
            confidence=answer.confidence,
        )

    def undo(self, answer: Answer, at: datetime) -> None:
        """Undo an answer that was appended."""
        self._desk.progress.undo(self._saved.pop(answer.posed.question.key).receipt, at)

    def close(self) -> None:
        """Make what was written so far final, as a retry does."""
        self._before += [saved.called for saved in self._saved.values() if saved.called]
        self._saved.clear()
