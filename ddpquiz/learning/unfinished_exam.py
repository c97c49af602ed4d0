"""Exams that were left before their end, for example since the window closed: they can be continued.

Each answer is in the log at once. A file holds the rest: which questions were asked, in which form, where the learner
was, and how much time was used. The clock of an exam stands still while it is closed. The rules of an exam are in
quiz.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from ddpquiz.curriculum.concept import Kind, Question
from ddpquiz.curriculum.posed_question import Posed, pose_with
from ddpquiz.learning.answers import SavedAnswer
from ddpquiz.learning.judge import judge
from ddpquiz.learning.log_rows import Receipt
from ddpquiz.learning.quiz import Answer, Quiz
from ddpquiz.learning.side_files import load_json, save_json

_FILE = "exams.json"  # {command line: exam}


class UnfinishedExam(NamedTuple):
    """An exam as it was left, and the rows of the log that its answers are, by question."""

    quiz: Quiz
    saved: Mapping[str, SavedAnswer]


def save_exam(home: Path, command: str, exam: UnfinishedExam, at: datetime) -> None:
    """Save an exam under the command line that began it; a folder that cannot be written is ignored."""
    quiz = exam.quiz
    asked = [
        {"item": one.question.key, "values": dict(one.values), "shown": one.shown, "text": _text(one)}
        for one in quiz.asked
    ]
    answers = [
        {
            "item": one.posed.question.key,
            "given": one.given,
            "at": one.at.isoformat(),
            "took": one.took.total_seconds(),
            "confidence": one.confidence,
            "row": exam.saved[one.posed.question.key].receipt,
            "card": exam.saved[one.posed.question.key].made_due_card,
        }
        for one in quiz.answers
    ]
    used = (at - quiz.began).total_seconds()
    _write(home, {**_read(home), command: {"used": used, "place": quiz.place, "asked": asked, "answers": answers}})


def forget_exam(home: Path, command: str) -> None:
    """Forget an exam that has ended."""
    known = _read(home)
    if command in known:
        del known[command]
        _write(home, known)


def load_exam(
    home: Path, command: str, fresh: Quiz, questions: Iterable[Question], rows: Collection[Receipt]
) -> UnfinishedExam | None:
    """The exam that this command line began and that has not ended, in place of a fresh one that would begin now.

    Returns None without such an exam, or if one of its questions has changed. `rows` are the answers in the log; a
    question whose answer the log does not hold is asked again.
    """
    try:
        return _exam(_read(home)[command], fresh, {one.key: one for one in questions}, rows)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError):
        return None


def _exam(kept: Any, fresh: Quiz, questions: Mapping[str, Question], rows: Collection[Receipt]) -> UnfinishedExam:
    asked = {one["item"]: _posed(questions[one["item"]], one) for one in kept["asked"]}
    known = [(one, Receipt(*one["row"])) for one in kept["answers"]]
    given = [(_answer(asked[one["item"]], one), SavedAnswer(row, one["card"])) for one, row in known if row in rows]
    quiz = replace(
        fresh,
        asked=tuple(asked.values()),
        began=fresh.began - timedelta(seconds=kept["used"]),
        place=min(max(0, int(kept["place"])), len(asked)),
        answers=tuple(answer for answer, _ in given),
    )
    return UnfinishedExam(quiz, {answer.posed.question.key: row for answer, row in given})


def _posed(question: Question, kept: Any) -> Posed:
    shown = tuple(kept["shown"])
    posed = pose_with(question, kept["values"]) if question.kind is Kind.NUMBER else Posed(question, {}, shown)
    if _text(posed) != kept["text"]:
        raise ValueError("the question has changed")
    return posed


def _text(posed: Posed) -> int:
    """A checksum of a question as it is shown."""
    return crc32(repr((posed.question, posed.shown)).encode())


def _answer(posed: Posed, kept: Any) -> Answer:
    at, took = datetime.fromisoformat(kept["at"]), timedelta(seconds=kept["took"])
    return Answer(posed, kept["given"], judge(posed, kept["given"]), at, took, confidence=kept["confidence"])


def _read(home: Path) -> dict[str, Any]:
    try:
        return dict(load_json(home / _FILE))
    except (OSError, ValueError, TypeError):
        return {}


def _write(home: Path, exams: Mapping[str, Any]) -> None:
    try:
        save_json(home / _FILE, exams)
    except OSError:
        return
