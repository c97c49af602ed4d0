"""`ddpquiz test`: find out what you know, and why each wrong answer is wrong."""

# ruff: noqa: PT028  a command, not a test
from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ddpquiz.cli import clock, completion, desk
from ddpquiz.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ddpquiz.curriculum.catalog import Catalog
    from ddpquiz.curriculum.concept import Question
    from ddpquiz.curriculum.posed import Posed
    from ddpquiz.learning.log_rows import Row
    from ddpquiz.learning.quiz import Answer
    from ddpquiz.learning.quiz_scores import LevelScore
    from ddpquiz.terminal.sittings.quiz import QuizScreen

_SECONDS = 5  # that a question takes at least
_DAY = 86_400  # seconds; nobody waits for more, and no clock counts to the end of time
_QUESTIONS = 10  # of a test, unless another count is asked for


def _count(text: str) -> int:
    return _at_least(1, text, "a test asks one question or more, as in --count 10")


def _seconds(text: str) -> int:
    wanted = f"the time for a question is {_SECONDS} seconds or more, as in --timed 60"
    return min(_at_least(_SECONDS, text, wanted), _DAY)


def _at_least(least: int, text: str, wanted: str) -> int:
    if not str(text).isdecimal() or int(text) < least:
        raise typer.BadParameter(f"`{text}` will not do; {wanted}.")
    return int(text)


Level = Literal["easy", "medium", "hard"]
Kind = Literal["choice", "choices", "number", "order", "output"]


def test(
    concept: Annotated[
        list[str] | None, typer.Argument(help="Only questions about these.", autocompletion=completion.concepts)
    ] = None,
    level: Annotated[Level | None, typer.Option(help="Only this level.")] = None,
    kind: Annotated[Kind | None, typer.Option(help="Only this kind of question.")] = None,
    track: Annotated[str | None, typer.Option(help="Only this track.", autocompletion=completion.tracks)] = None,
    count: Annotated[int, typer.Option(parser=_count, metavar="QUESTIONS", help="Questions, at most.")] = _QUESTIONS,
    seed: Annotated[int | None, typer.Option(help="Ask the same questions, in the same form, each time.")] = None,
    wrong: Annotated[bool, typer.Option("--wrong", help="Only what you answered wrong the last time.")] = False,
    timed: Annotated[
        int | None,
        typer.Option(parser=_seconds, metavar="SECONDS", help="Time for each question; in a pipe no clock runs."),
    ] = None,
    exam: Annotated[bool, typer.Option("--exam", help="No verdict before the end, no hints and no solutions.")] = False,
    confidence: Annotated[
        bool, typer.Option("--confidence", help="Say how sure you are before each verdict, from 1 to 4.")
    ] = False,
    adaptive: Annotated[
        bool, typer.Option("--adaptive", help="Ask what tells most each time, and stop when the verdict is clear.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write the result as JSON, and nothing else.")] = False,
) -> None:
    """Answer questions; in a pipe, answers are read from standard input, one a line; an empty line skips.

    A line that is no answer counts as none, is told on standard error, and makes the exit status 1. With --confidence
    each answer is followed by a line with 1 (a guess) to 4 (sure).
    """
    import random
    from collections import Counter
    from datetime import timedelta

    from ddpquiz.curriculum import loading
    from ddpquiz.learning import question_selection, quiz
    from ddpquiz.learning.progress import Progress
    from ddpquiz.paths import data_dir
    from ddpquiz.terminal.kit import style
    from ddpquiz.terminal.sittings.quiz import QuizScreen

    if adaptive and wrong:
        raise typer.BadParameter("--adaptive asks what tells most and --wrong what you missed; leave one of them out.")
    known = loading.load()
    found = _fitting(known, concept or (), track, level, kind)
    rules = quiz.Rules(timedelta(seconds=timed) if timed else None, exam, confidence, count if adaptive else 0)
    with Progress(data_dir()) as progress:
        rows = progress.entries("answer")
        if wrong:
            found = _missed(found, rows)
        if not found:
            raise UserError(_nothing({"--level": level, "--kind": kind, "--track": track}, wrong=wrong))
        earlier = set[str]() if wrong or seed is not None else _answered_today(found, rows)
        found = [question for question in found if question.key not in earlier]
        right = Counter(row.item for row in rows if row.credit) if seed is None else None
        dice = random.Random(seed)  # noqa: S311
        asked = question_selection.choose_questions(found, len(found) if adaptive else count, dice, right)
        state = quiz.begin(asked, dice, clock.now(), rules=rules)
        opening = f"{len(earlier)} answered earlier today; going on with the rest." if earlier else ""
        matter = {"--track": track, "--kind": kind}
        manner = {
            "--level": level,
            "--count": None if count == _QUESTIONS else count,
            "--seed": seed,
            "--wrong": wrong,
            "--timed": timed,
            "--exam": exam,
            "--confidence": confidence,
            "--adaptive": adaptive,
        }
        piped = not sys.stdin.isatty()
        seat = QuizScreen(
            desk.desk(known, progress),
            state,
            dice,
            final=piped,
            opening=opening,
            about=desk.words(*(concept or ()), **matter),
            go_on=desk.words("ddpquiz", "test", *(concept or ()), **matter, **manner),
        )
        console = style.complaints() if as_json else style.console()
        console.quiet = as_json and piped  # then nobody looks
        desk.sit_down(seat, console, lines=as_json)
        if as_json:
            _print(seat, seed, _verdicts(seat, progress.entries("answer")))
    if seat.unread:
        raise typer.Exit(1)


def _fitting(
    known: Catalog, concepts: Sequence[str], track: str | None, level: Level | None, kind: Kind | None
) -> list[Question]:
    """Return the questions that the command line asks for; UserError for a track named as a concept."""
    for name in {one.id for one in known.tracks} & {*concepts} - {one.id for one in known.concepts}:
        raise UserError(f"{name} is a track: ddpquiz test --track {name}")
    return [
        question
        for concept in desk.chosen(known, concepts, track)
        for question in concept.questions
        if level in (None, question.level) and kind in (None, question.kind)
    ]


def _missed(questions: Sequence[Question], rows: Sequence[Row]) -> list[Question]:
    last = {row.item: row.credit for row in rows}
    return [question for question in questions if last.get(question.key) == 0]


def _answered_today(questions: Sequence[Question], rows: Sequence[Row]) -> set[str]:
    """Return which of these questions were answered on this study day; none once all were, so that it begins anew."""
    from ddpquiz.learning.schedule import study_day

    today = str(study_day(clock.now()))
    answered = {row.item for row in rows if row.day == today and not row.retry}
    keys = {question.key for question in questions}
    return set() if keys <= answered else keys & answered


def _nothing(options: Mapping[str, str | None], *, wrong: bool) -> str:
    if wrong:
        return "Nothing that fits was answered wrong the last time; leave --wrong out."
    given = " or ".join(option for option, value in options.items() if value)
    return f"No question fits; leave out {given}, or name another concept."


def _verdicts(seat: QuizScreen, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the verdict on each concept that was asked about."""
    from ddpquiz.learning.mastery import strengths
    from ddpquiz.learning.schedule import study_day

    asked = {posed.question.concept for posed in seat.quiz.asked}
    known = strengths((row for row in rows if not row.retry), study_day(clock.now()))
    return {
        name: {"label": one.label, "low": one.low, "high": one.high, "mean": one.mean, "answers": one.answers}
        for name, one in known.items()
        if name in asked
    }


def _print(seat: QuizScreen, seed: int | None, verdicts: dict[str, Any]) -> None:
    """Write the result of a quiz as JSON; without a seed, what was asked depends on what was known."""
    import json
    from dataclasses import asdict

    from ddpquiz.learning.quiz_scores import scores, wanting
    from ddpquiz.terminal.sittings.quiz_result import sureness

    quiz = seat.quiz
    answers = {id(answer.posed): answer for answer in quiz.answers}
    told = sureness(quiz)
    result = {
        "seed": seed,
        **_score(scores(quiz, "")[""]),
        "by_concept": {name: _score(score) for name, score in scores(quiz, "concept").items()},
        "by_level": {name: _score(score) for name, score in scores(quiz, "level").items()},
        "weakest": wanting(quiz),
        "verdicts": verdicts,
        "calibration": {"bands": [asdict(band) for band in told.bands], "brier": told.brier} if told else None,
        "questions": [
            _question(posed, answers.get(id(posed)), seat.unread.get(posed.question.key, "")) for posed in quiz.asked
        ],
    }
    print(json.dumps(result, indent=2, ensure_ascii=False))


def _score(score: LevelScore) -> dict[str, float]:
    return {"asked": score.asked, "answered": score.answered, "right": score.right, "credit": score.credit}


def _question(posed: Posed, answer: Answer | None, unread: str) -> dict[str, Any]:
    from ddpquiz.learning.judge import expected

    question = posed.question
    shown = question.options or question.lines
    return {
        "item": question.key,
        "level": question.level,
        "kind": question.kind,
        "ask": question.ask,
        "code": question.code,
        "shown": [shown[index].text for index in posed.shown],
        "given": answer.given if answer else None,
        "right": answer.right if answer else None,
        "credit": answer.credit if answer else None,
        "expected": expected(posed),
        "why": [*answer.verdict.whys] if answer else [unread] if unread else [],
        "hints": answer.hints if answer else 0,
        "confidence": answer.confidence if answer else None,
        "took_ms": round(answer.took.total_seconds() * 1000) if answer else None,
    }
