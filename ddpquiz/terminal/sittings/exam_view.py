"""The end of an exam before its verdicts: which questions have an answer, and which have none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.terminal.kit.layout import columns
from ddpquiz.terminal.kit.style import plain, prose
from ddpquiz.terminal.sittings.question_view import answer_text
from ddpquiz.terminal.sittings.sitting import header

if TYPE_CHECKING:
    from ddpquiz.learning.quiz import Quiz


def overview(quiz: Quiz) -> RenderableType:
    """Draw each question of an exam with the answer that it has so far."""
    count, asked = len(quiz.open), len(quiz.asked)
    left = f"{count} of {asked} questions have no answer" if count else "Every question has an answer"
    rows = []
    for number, posed in enumerate(quiz.asked, 1):
        answer = quiz.answer_to(posed)
        text = prose(answer_text(posed, answer.given, answer.verdict)) if answer else Text("no answer", style="warn")
        rows.append((Text(str(number), style="key"), Text(plain(posed.question.concept), style="quiet"), text))
    return Group(header("Exam", "overview"), Text(), Text(f"{left}.", style="head"), Text(), columns(rows))
