"""The overview at the end of an exam: each question with its answer so far, and a number that leads to it."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.learning.quiz_state import Quiz
from ddpquiz.terminal.kit.hotkeys import Hotkey
from ddpquiz.terminal.kit.layout import columns
from ddpquiz.terminal.kit.style import plain, prose
from ddpquiz.terminal.sittings.question_view import answer_text
from ddpquiz.terminal.sittings.sitting import header


def overview(quiz: Quiz, number_entry: NumberEntry) -> RenderableType:
    """Draw each question of an exam with the answer that it has so far, and the number that is half typed."""
    count, asked = len(quiz.open), len(quiz.asked)
    left = f"Questions without an answer: {count} of {asked}" if count else "Every question has an answer"
    rows = []
    for number, posed in enumerate(quiz.asked, 1):
        answer = quiz.answer_to(posed)
        text = prose(answer_text(posed, answer.given, answer.verdict)) if answer else Text("no answer", style="warn")
        rows.append((Text(str(number), style="key"), Text(plain(posed.question.concept), style="quiet"), text))
    typed = [Text(number_entry.note, style="warn")] if number_entry.note else []
    return Group(header("Exam", "overview"), Text(), Text(f"{left}.", style="head"), Text(), columns(rows), *typed)


def number_key(quiz: Quiz) -> Hotkey:
    """Return the key of the numbers of questions."""
    last = len(quiz.asked)
    return Hotkey(
        f"1-{last}" if last > 1 else "1", "question", "go to the question with this number, to change its answer"
    )


class NumberEntry:
    """The number of a question, typed digit by digit."""

    def __init__(self) -> None:
        self._typed = ""

    @property
    def note(self) -> str:
        """What to do next if a number is half typed, otherwise ""."""
        return f"Question {self._typed}: press enter, or one more digit." if self._typed else ""

    def clear(self) -> None:
        """Forget the digits."""
        self._typed = ""

    def press(self, key: str, quiz: Quiz) -> int | None:
        """Return the place, counted from 0, to which a key leads; None if it leads nowhere yet.

        Enter, or a digit after which no further one can follow, ends a number; enter alone leads to the first question
        without an answer.
        """
        typed, self._typed = self._typed, ""
        if key == "enter":
            return int(typed) - 1 if typed else next(iter(quiz.open), None)
        number, count = int(typed + key) if key.isdecimal() else 0, len(quiz.asked)
        if not 1 <= number <= count:
            return None
        if 10 * number > count:
            return number - 1
        self._typed = str(number)
        return None
