"""The result of a quiz as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ddpquiz.cli import clock
from ddpquiz.curriculum.posed_question import Posed
from ddpquiz.learning.graded_answer import Answer
from ddpquiz.learning.judge import expected
from ddpquiz.learning.log_rows import Row
from ddpquiz.learning.mastery import strengths
from ddpquiz.learning.quiz_scores import calibration_of, scores, wanting
from ddpquiz.learning.schedule import study_day
from ddpquiz.terminal.sittings.quiz_by_lines import QuizByLines


def show(screen: QuizByLines, seed: int | None, rows: Sequence[Row]) -> None:
    """Print the result of a quiz as JSON; `rows` are the answers that strength depends on."""
    quiz = screen.quiz
    answers = {id(answer.posed): answer for answer in quiz.answers}
    sure = calibration_of(quiz)
    result = {
        "seed": seed,
        **asdict(scores(quiz, "")[""]),
        "by_concept": {name: asdict(score) for name, score in scores(quiz, "concept").items()},
        "by_level": {name: asdict(score) for name, score in scores(quiz, "level").items()},
        "weakest": wanting(quiz),
        "verdicts": _verdicts(screen, rows),
        "calibration": {"bands": [asdict(band) for band in sure.bands], "brier": sure.brier} if sure else None,
        "questions": [
            _question(posed, answers.get(id(posed)), screen.unread.get(posed.question.key, "")) for posed in quiz.asked
        ],
    }
    print(json.dumps(result, indent=2, ensure_ascii=False))


def _verdicts(screen: QuizByLines, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the verdict on each concept that was asked about."""
    asked = {posed.question.concept for posed in screen.quiz.asked}
    known = strengths(rows, study_day(clock.now()))
    return {
        name: {"label": one.label, "low": one.low, "high": one.high, "mean": one.mean, "answers": one.answers}
        for name, one in known.items()
        if name in asked
    }


def _question(posed: Posed, answer: Answer | None, unread: str) -> dict[str, Any]:
    question = posed.question
    shown = question.options or question.lines
    return {
        "item": question.key,
        "level": question.level,
        "kind": question.kind,
        "ask": question.ask,
        "code": question.code,
        "shown": [shown[index].text for index in posed.shown],
        "fix": question.fix,
        "given": answer.given if answer else None,
        "right": answer.right if answer else None,
        "credit": answer.credit if answer else None,
        "expected": expected(posed),
        "why": [*answer.verdict.whys] if answer else [unread] if unread else [],
        "hints": answer.hints if answer else 0,
        "confidence": answer.confidence if answer else None,
        "took_ms": round(answer.took.total_seconds() * 1000) if answer else None,
    }
