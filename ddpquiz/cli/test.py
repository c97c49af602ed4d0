"""`ddpquiz test`: find out what you know, and why each wrong answer is wrong."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import typer

from ddpquiz.cli import clock, completion, sitting
from ddpquiz.cli.item_options import LevelOption, TrackOption
from ddpquiz.cli.output import say
from ddpquiz.cli.typer_options import with_options
from ddpquiz.curriculum import loading
from ddpquiz.curriculum.posed_question import Posed, expected
from ddpquiz.learning.log_rows import Row
from ddpquiz.learning.mastery import strengths
from ddpquiz.learning.quiz import Answer, QuizAction
from ddpquiz.learning.quiz_scores import calibration_of, scores, weakest_concept
from ddpquiz.learning.schedule import study_day
from ddpquiz.safe_text import to_json
from ddpquiz.terminal.kit import style
from ddpquiz.terminal.sittings.quiz_screen import QUESTIONS, QuizChoice, QuizScreen, ask_questions

_SECONDS = 5  # the least time for a question
_DAY = 86_400  # seconds; the most time for a question


def _count(text: str) -> int:
    return _at_least(1, text, "a test has one question or more, as in --count 10")


def _seconds(text: str) -> int:
    wanted = f"a question has {_SECONDS} seconds or more, as in --timed 60"
    return min(_at_least(_SECONDS, text, wanted), _DAY)


def _at_least(least: int, text: str, wanted: str) -> int:
    if not str(text).isdecimal() or int(text) < least:
        raise typer.BadParameter(f"`{text}` is not possible; {wanted}.")
    return int(text)


Kind = Literal["choice", "choices", "number", "order", "output", "spot"]


@dataclass(frozen=True, kw_only=True)
class TestOptions(QuizChoice):
    """The options of `test`."""

    concept: Annotated[
        list[str] | None, typer.Argument(help="Ask only about these concepts.", autocompletion=completion.concepts)
    ] = None
    level: LevelOption = None
    kind: Annotated[Kind | None, typer.Option(help="Only this kind of question.")] = None
    track: TrackOption = None
    count: Annotated[int, typer.Option(parser=_count, metavar="QUESTIONS", help="Questions, at most.")] = QUESTIONS
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same questions, in the same form.")] = None
    wrong: Annotated[bool, typer.Option("--wrong", help="Ask only questions that you got wrong last time.")] = False
    timed: Annotated[
        int | None,
        typer.Option(
            parser=_seconds,
            metavar="SECONDS",
            help="Time limit per question; in an exam, one limit for all questions together. No limit in a pipe.",
        ),
    ] = None
    exam: Annotated[
        bool, typer.Option("--exam", help="No verdicts, hints or solutions before the end; answers can be changed.")
    ] = False
    confidence: Annotated[
        bool, typer.Option("--confidence", help="Say how sure you are before each verdict, from 1 to 4.")
    ] = False
    adaptive: Annotated[
        bool, typer.Option("--adaptive", help="Ask the most informative question; stop once the verdict is clear.")
    ] = False
    every: Annotated[bool, typer.Option("--all", help="Ask also about concepts whose lesson you have not begun.")] = (
        False
    )
    as_json: Annotated[bool, typer.Option("--json", help="Write the result as JSON, and nothing else.")] = False


@with_options(TestOptions)
def test(*, options: TestOptions) -> None:
    """Answer questions. In a pipe, answers are read from standard input, one per line; an empty line skips.

    A line that cannot be read as an answer does not count; it is reported on standard error and makes the exit status
    1. With --confidence, each answer is followed by a line with 1 (a guess) to 4 (sure).
    """
    if options.adaptive and options.wrong:
        raise typer.BadParameter("--adaptive and --wrong each choose the questions; use only one of the two.")
    console = style.complaints() if options.as_json else style.console()
    console.quiet = options.as_json and not sys.stdin.isatty()  # nobody reads it
    with sitting.open_sitting(loading.load()) as context:
        screen = ask_questions(context, options, console, lines=options.as_json)
        if options.as_json:
            screen.do(QuizAction.STOP)  # also of an exam that was left: its answers are told now
            print_json(screen, options.seed, context.progress.last_answers())
    if screen.by_lines.unread:
        raise typer.Exit(1)


# The result of a quiz as JSON.


def print_json(screen: QuizScreen, seed: int | None, rows: Sequence[Row]) -> None:
    """Print the result of a quiz as JSON; `rows` are the answers that strength depends on."""
    quiz = screen.quiz
    answers = {id(answer.posed): answer for answer in quiz.answers}
    sure = calibration_of(quiz)
    result = {
        "seed": seed,
        **asdict(scores(quiz, "")[""]),
        "by_concept": {name: asdict(score) for name, score in scores(quiz, "concept").items()},
        "by_level": {name: asdict(score) for name, score in scores(quiz, "level").items()},
        "weakest": weakest_concept(quiz),
        "verdicts": _verdicts(screen, rows),
        "calibration": {"bands": [asdict(band) for band in sure.bands], "brier": sure.brier} if sure else None,
        "questions": [
            _question(posed, answers.get(id(posed)), screen.by_lines.unread.get(posed.question.key, ""))
            for posed in quiz.asked
        ],
    }
    say(to_json(result, indent=2))


def _verdicts(screen: QuizScreen, rows: Sequence[Row]) -> dict[str, Any]:
    """The verdict on each concept that was asked about."""
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
