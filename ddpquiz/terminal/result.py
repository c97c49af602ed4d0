"""What a quiz came to: the score, the verdict on what was asked about, calibration, and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from ddpquiz.learning import quiz as quizzes
from ddpquiz.learning.calibration import Lean, calibration
from ddpquiz.learning.mastery import MEANING
from ddpquiz.terminal import questions
from ddpquiz.terminal.layout import columns, indented, section
from ddpquiz.terminal.style import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType

    from ddpquiz.learning.calibration import Calibration
    from ddpquiz.learning.mastery import Strength
    from ddpquiz.learning.quiz import Quiz, Score

_LEANS = {
    Lean.OVER: "You were surer than you were right: said {said:.0%} on average, right {right:.0%}.",
    Lean.UNDER: "You know more than you trust yourself to: said {said:.0%} on average, right {right:.0%}.",
    Lean.NONE: "You judge yourself well: what you said and what was right differ by no more than chance.",
}


def result(quiz: Quiz, again: Quiz | None, strengths: Mapping[str, Strength], called: int) -> Group:
    """Draw what a quiz came to; `again` is the last retry of what was wrong, `called` counts cards that became due."""
    parts: list[RenderableType] = [Text(f"Done: {_score(quizzes.scores(quiz, '')[''])}.", style="head")]
    if again:
        parts.append(Text(f"Once more: {_score(quizzes.scores(again, '')[''])}."))
    by_concept = quizzes.scores(quiz, "concept")
    tested = [name for name, score in by_concept.items() if score.answered and name in strengths]
    if len(by_concept) == 1 and tested:
        parts += _verdict(tested[0], strengths[tested[0]])
    else:
        rows = columns(_row(name, score, strengths) for name, score in by_concept.items())
        parts += section("By concept", rows)
        if any("%" in strengths[name].short for name in by_concept if name in strengths):
            parts.append(indented(Text(MEANING, style="quiet")))
    rows = columns((Text(level), Text(_score(score))) for level, score in quizzes.scores(quiz, "level").items())
    parts += section("By level", rows)
    if told := sureness(quiz):
        parts += section("How sure you were", *_calibration(told))
    parts += section("Next", _next(again or quiz, called))
    return Group(*parts)


def sureness(quiz: Quiz) -> Calibration | None:
    """Return how sure the learner was and how often right, if that was asked for."""
    given = [(each.confidence, each.verdict.right) for each in quiz.answers if not each.told]
    return calibration((said, right) for said, right in given if said is not None)


def review(quiz: Quiz) -> list[RenderableType]:
    """Draw each question of an exam with the verdict on it."""
    answers = {id(answer.posed): answer for answer in quiz.answers}
    parts: list[RenderableType] = []
    for number, posed in enumerate(quiz.asked, 1):
        answer = answers.get(id(posed))
        missing = quizzes.unanswered(posed, quiz.since)
        parts.append(Text(plain(f"Question {number} · {posed.question.level} · {posed.question.key}"), style="title"))
        parts.append(questions.verdict(answer) if answer else Text("Not answered.", style="warn"))
        parts += [Text(), *questions.stem(posed.question), *questions.judged(answer or missing), Text()]
    return parts


def _verdict(concept: str, strength: Strength) -> list[RenderableType]:
    told = [Text(str(strength)), Text(strength.outlook)]
    meaning = [Text(MEANING, style="quiet")] if "%" in str(strength) else []
    return section(plain(f"Verdict on {concept}"), *told, *meaning)


def _calibration(told: Calibration) -> list[RenderableType]:
    rows = ((Text(f"said {band.said:.0%}"), Text(f"right {band.right} of {band.answers}")) for band in told.bands)
    brier = f"Brier score {told.brier:.2f}: 0 is perfect, always saying 50 % gives 0.25."
    lean = _LEANS[told.lean].format(said=told.said, right=told.right) if told.lean else ""
    return [columns(rows), *([Text(lean)] if lean else []), Text(brier, style="quiet")]


def _next(quiz: Quiz, called: int) -> RenderableType:
    rows: list[tuple[str, str]] = []
    if quiz.missed:
        rows.append(("ddpquiz test --wrong", "what was wrong, once more"))
    if weak := quizzes.wanting(quiz):
        rows.append((f"ddpquiz learn {weak}", "read about what cost most"))
    if called:
        rows.append(("ddpquiz study", f"{called} card{'s' * (called != 1)} became due by wrong answers"))
    if not rows and quiz.answers:
        hardest = all(answer.posed.question.level == "hard" for answer in quiz.answers)
        rows.append(("ddpquiz test", "another concept") if hardest else ("ddpquiz test --level hard", "a harder one"))
    rows = rows or [("ddpquiz test", "when you have time to answer")]
    return columns((Text(plain(command), style="code"), Text(what)) for command, what in rows)


def _row(name: str, score: Score, strengths: Mapping[str, Strength]) -> tuple[Text, Text, Text]:
    strength = Text(strengths[name].short, style="quiet") if name in strengths else Text()
    return Text(plain(name)), Text(_score(score)), strength


def _score(score: Score) -> str:
    skipped = score.asked - score.answered
    if not score.answered:
        return f"{skipped} not answered"
    earned = f", {score.credit:g} earned" if score.credit != score.right else ""
    return f"{score.right} of {score.answered} right{earned}" + (f", {skipped} not answered" if skipped else "")
