"""The result of a quiz as JSON."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal

import typer

from ddpquiz.benchmark.file import load_bench
from ddpquiz.cli import clock, completion, session
from ddpquiz.cli.progress_file import open_progress
from ddpquiz.cli.typer_options import with_options
from ddpquiz.curriculum import loading
from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import Question
from ddpquiz.curriculum.posed_question import Posed, on_machine
from ddpquiz.errors import UserError
from ddpquiz.learning import quiz
from ddpquiz.learning.judge import expected
from ddpquiz.learning.log_rows import Row
from ddpquiz.learning.mastery import strengths
from ddpquiz.learning.quiz import Answer, Rules
from ddpquiz.learning.quiz_scores import calibration_of, scores, weakest_concept
from ddpquiz.learning.schedule import study_day
from ddpquiz.terminal.kit import style
from ddpquiz.terminal.sittings.quiz import QuizByLines
from ddpquiz.terminal.sittings.quiz_result import QuizCommand

# The result of a quiz as JSON.


def print_json(screen: QuizByLines, seed: int | None, rows: Sequence[Row]) -> None:
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


# `ddpquiz test`: find out what you know, and why each wrong answer is wrong.

_SECONDS = 5  # the least time for a question
_DAY = 86_400  # seconds; the most time for a question
_QUESTIONS = 10  # of a test, unless another count is asked for


def _count(text: str) -> int:
    return _at_least(1, text, "a test has one question or more, as in --count 10")


def _seconds(text: str) -> int:
    wanted = f"a question has {_SECONDS} seconds or more, as in --timed 60"
    return min(_at_least(_SECONDS, text, wanted), _DAY)


def _at_least(least: int, text: str, wanted: str) -> int:
    if not str(text).isdecimal() or int(text) < least:
        raise typer.BadParameter(f"`{text}` is not possible; {wanted}.")
    return int(text)


Level = Literal["easy", "medium", "hard"]
Kind = Literal["choice", "choices", "number", "order", "output", "spot"]


@dataclass(frozen=True, kw_only=True)
class TestOptions:
    """What to ask, and how."""

    concept: Annotated[
        list[str] | None, typer.Argument(help="Only questions about these.", autocompletion=completion.concepts)
    ] = None
    level: Annotated[Level | None, typer.Option(help="Only this level.")] = None
    kind: Annotated[Kind | None, typer.Option(help="Only this kind of question.")] = None
    track: Annotated[str | None, typer.Option(help="Only this track.", autocompletion=completion.tracks)] = None
    count: Annotated[int, typer.Option(parser=_count, metavar="QUESTIONS", help="Questions, at most.")] = _QUESTIONS
    seed: Annotated[int | None, typer.Option(help="Ask the same questions, in the same form, each time.")] = None
    wrong: Annotated[bool, typer.Option("--wrong", help="Only what you answered wrong the last time.")] = False
    timed: Annotated[
        int | None,
        typer.Option(
            parser=_seconds,
            metavar="SECONDS",
            help="Time for each question; an exam has the time of all its questions. No clock runs in a pipe.",
        ),
    ] = None
    exam: Annotated[
        bool, typer.Option("--exam", help="No verdicts, hints or solutions before the end; answers can be changed.")
    ] = False
    confidence: Annotated[
        bool, typer.Option("--confidence", help="Say how sure you are before each verdict, from 1 to 4.")
    ] = False
    adaptive: Annotated[
        bool, typer.Option("--adaptive", help="Ask the most informative question each time; stop at a clear verdict.")
    ] = False
    as_json: Annotated[bool, typer.Option("--json", help="Write the result as JSON, and nothing else.")] = False

    @property
    def about(self) -> str:
        """The words of the command line that say what is asked about."""
        return session.words(*self.concept or (), **{"--track": self.track, "--kind": self.kind})

    @property
    def command(self) -> str:
        """The command line that was given."""
        names = ("level", "count", "seed", "wrong", "timed", "exam", "confidence", "adaptive")
        options = {f"--{name}": getattr(self, name) for name in names}
        if self.count == _QUESTIONS:
            del options["--count"]
        return session.words(*f"ddpquiz test {self.about}".split(), **options)

    @property
    def rules(self) -> Rules:
        timed = timedelta(seconds=self.timed) if self.timed else None
        return Rules(timed, self.exam, self.confidence, self.count if self.adaptive else 0)


@with_options(TestOptions)
def test(*, options: TestOptions) -> None:
    """Answer questions. In a pipe, answers are read from standard input, one per line; an empty line skips.

    A line that cannot be read as an answer does not count; it is reported on standard error and makes the exit status
    1. With --confidence, a line with 1 (a guess) to 4 (sure) follows each answer.
    """
    if options.adaptive and options.wrong:
        raise typer.BadParameter(
            "--adaptive chooses the most informative questions, --wrong those you missed; leave one of them out."
        )
    sit(options)


def sit(options: TestOptions, place: str = "", back_to: str = "") -> None:
    """Choose the questions, and ask them; for `place` and `back_to` see SessionContext.

    Raises Exit with status 1 if a line of a pipe could not be read.
    """
    known = loading.load()
    found, piped = _fitting(known, options), not sys.stdin.isatty()
    with open_progress() as progress:
        rows = progress.entries("answer")
        if options.wrong:
            found = _missed(found, rows)
        if not found:
            raise UserError(_nothing(options))
        earlier = set[str]() if options.wrong or options.seed is not None else _answered_today(found, rows)
        found = [question for question in found if question.key not in earlier]
        right = Counter(row.item for row in rows if row.credit) if options.seed is None else None
        dice = random.Random(options.seed)  # noqa: S311
        count = len(found) if options.adaptive else options.count
        asked = quiz.choose_questions(found, count, dice, right)
        opening = _already(known, earlier) if earlier else ""
        command = QuizCommand(whole=options.command, about=options.about, opening=opening, final=piped)
        begun = quiz.begin(_on_machine(asked), dice, clock.now(), rules=options.rules)
        screen = QuizByLines(session.context(known, progress, place, back_to), begun, dice, command)
        console = style.complaints() if options.as_json else style.console()
        console.quiet = options.as_json and piped  # nobody reads it
        session.run_session(screen, console, lines=options.as_json)
        if options.as_json:
            print_json(screen, options.seed, progress.last_answers())
    if screen.unread:
        raise typer.Exit(1)


def _on_machine(questions: list[Question]) -> list[Question]:
    """Return the questions with figures of this machine, in those that ask for them."""
    if not any(variable.measured for question in questions for variable in question.variables):
        return questions
    figures = load_bench().figures()
    return [on_machine(question, figures) for question in questions]


def _fitting(known: Catalog, options: TestOptions) -> list[Question]:
    """Return the questions that the command line asks for; UserError for a track named as a concept."""
    for name in {one.id for one in known.tracks} & set(options.concept or ()) - {one.id for one in known.concepts}:
        raise UserError(f"{name} is a track: `ddpquiz test --track {name}`")
    return [
        question
        for concept in session.chosen(known, options.concept, options.track)
        for question in concept.questions
        if options.level in (None, question.level) and options.kind in (None, question.kind)
    ]


def _missed(questions: Sequence[Question], rows: Sequence[Row]) -> list[Question]:
    last = {row.item: row.credit for row in rows}
    return [question for question in questions if last.get(question.key) == 0]


def _answered_today(questions: Sequence[Question], rows: Sequence[Row]) -> set[str]:
    """Return which of these questions were answered today; none if all were, so that they are asked again."""
    today = str(study_day(clock.now()))
    answered = {row.item for row in rows if row.day == today and not row.retry}
    keys = {question.key for question in questions}
    return set() if keys <= answered else keys & answered


def _already(known: Catalog, earlier: set[str]) -> str:
    """Return how many questions are left out since they were answered today, perhaps as a prediction."""
    predicted = {f"{one.id}/{link.predict}" for one in known.concepts for link in one.demos if link.predict}
    how = " (the prediction before a demo counts)" if earlier & predicted else ""
    return f"{len(earlier)} answered earlier today{how}; going on with the rest."


def _nothing(options: TestOptions) -> str:
    if options.wrong:
        return "None of these questions was answered wrong the last time; leave --wrong out."
    given = {"--level": options.level, "--kind": options.kind, "--track": options.track}
    names = " or ".join(name for name, value in given.items() if value)
    return f"No question fits; leave out {names}, or name another concept."
