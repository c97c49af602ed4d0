"""The result of a quiz: the score, the verdict on each concept, calibration, and what to do next."""

from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.curriculum.concept import Concept, Level
from ddpquiz.learning.judge import chance
from ddpquiz.learning.mastery import MEANING, WORDS, Strength
from ddpquiz.learning.quiz import Quiz
from ddpquiz.learning.quiz_scores import LevelScore, calibration_of, scores, weakest_concept
from ddpquiz.learning.statistics import ENOUGH, Bias, Calibration
from ddpquiz.plural import plural
from ddpquiz.terminal.kit.layout import Commands, columns, section
from ddpquiz.terminal.kit.style import plain
from ddpquiz.terminal.sittings import question_view

_BIASES = {
    Bias.OVER: "You were too sure: you said {said:.0%} on average, and {right:.0%} were right.",
    Bias.UNDER: "You know more than you think: you said {said:.0%} on average, and {right:.0%} were right.",
    Bias.NONE: "You judge yourself well: what you said and what was right differ by no more than chance.",
    None: "It takes {enough} answers to see whether you judge yourself well. `ddpquiz stats` adds them up.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuizCommand:
    """The command that started a quiz."""

    whole: str = ""
    about: str = ""  # the words of it that say what is asked about
    opening: str = ""  # a remark above the first question
    final: bool = False  # nobody is there to answer an unreadable line again


@dataclass(frozen=True, slots=True, kw_only=True)
class QuizResult:
    """The values of which the result of a quiz is drawn."""

    quiz: Quiz
    again: Quiz | None  # the last retry of what was wrong
    strengths: Mapping[str, Strength]
    made_due: int  # cards that became due
    concepts: Mapping[str, Concept]
    command: QuizCommand
    explained: bool  # the percentages come with their legend
    inside: bool  # the quiz was opened from another screen, to which enter leads back


def result(done: QuizResult) -> Group:
    """Draw the result of a quiz."""
    quiz, strengths = done.quiz, done.strengths
    exam = quiz.rules.exam
    parts: list[RenderableType] = [Text(f"Done: {_score(scores(quiz, '')[''], exam=exam)}.", style="head")]
    if quiz.late:
        parts.append(Text(f"Time was up on {_questions(len(quiz.late))}.", style="warn"))
    if done.again:
        parts.append(Text(f"Once more: {_score(scores(done.again, '')[''])}. It does not count for the verdict."))
    by_concept = scores(quiz, "concept")
    shorts = {name: strengths[name].short for name in by_concept if name in strengths}
    tested = [name for name, score in by_concept.items() if score.answered and name in strengths]
    if len(by_concept) == 1 and tested:
        parts += _verdict(tested[0], strengths[tested[0]], done.concepts)
    else:
        rows = (
            (
                Text(_title(name, done.concepts)),
                Text(_right(score, exam=exam)),  # how many have no answer stands above
                Text(shorts.get(name, ""), style="quiet"),
            )
            for name, score in by_concept.items()
        )
        table = columns(rows)
        table.columns[0].no_wrap = False  # a long title takes two lines, so that the verdict stays whole
        parts += section("By concept", table)
    parts += section("Next", _next(done))
    levels = scores(quiz, "level").items()
    parts += section("By level", columns((Text(level), Text(_score(score, exam=exam))) for level, score in levels))
    if sure := calibration_of(quiz):
        parts += section("How sure you were", *_calibration(sure))
    if done.explained and any("%" in short for short in shorts.values()):
        parts += legend()
    return Group(*parts)


def legend() -> list[RenderableType]:
    """Draw what the percentages and the words beside them mean."""
    return section("What the percentages mean", Text(MEANING, style="quiet"), Text(WORDS, style="quiet"))


def review(quiz: Quiz) -> list[RenderableType]:
    """Draw each question of an exam with its verdict; a quiz has shown its verdicts already."""
    if not quiz.rules.exam:
        return []
    return [part for place in range(len(quiz.asked)) for part in (*review_of(quiz, place), Text())]


def review_of(quiz: Quiz, place: int) -> list[RenderableType]:
    """Draw one question of an exam with its verdict."""
    posed = quiz.asked[place]
    answer = quiz.answer_to(posed)
    late = ": time was up" if place in quiz.late else ""
    return [
        Text(plain(f"Question {place + 1} · {posed.question.level} · {posed.question.key}"), style="title"),
        question_view.verdict(answer) if answer else Text(f"Not answered{late}.", style="warn"),
        Text(),
        *question_view.stem(posed.question),
        *(question_view.judged(answer) if answer else []),  # a question that may be asked again shows no solution
    ]


def _verdict(concept: str, strength: Strength, concepts: Mapping[str, Concept]) -> list[RenderableType]:
    asked = concepts[concept].questions if concept in concepts else ()
    outlook = strength.outlook((each.key, each.level, chance(each)) for each in asked)
    return section(
        f'Verdict on "{_title(concept, concepts)}"', Text(str(strength)), *([Text(outlook)] if outlook else [])
    )


def _title(concept: str, concepts: Mapping[str, Concept]) -> str:
    """The title of a concept; its name, if it is not here any more."""
    return plain(concepts[concept].title if concept in concepts else concept)


def _calibration(sure: Calibration) -> list[RenderableType]:
    rows = ((Text(f"said {band.said:.0%}"), Text(f"right {band.right} of {band.answers}")) for band in sure.bands)
    brier = f"Brier score {sure.brier:.2f}: 0 is perfect, always saying 50% gives 0.25."
    bias = _BIASES[sure.bias].format(said=sure.said, right=sure.right, enough=ENOUGH)
    return [columns(rows), Text(bias), Text(brier, style="quiet")]


def _next(done: QuizResult) -> RenderableType:
    quiz = done.again or done.quiz
    test = f"ddpquiz test {done.command.about}".rstrip()
    score = scores(quiz, "").get("")
    rows: list[tuple[str, str]] = []
    if quiz.missed:
        rows.append(("w" if done.inside else f"{test} --wrong", "answer again what you got wrong"))
    if weak := weakest_concept(quiz):
        missed = {answer.posed.question.concept for answer in quiz.answers if answer.credit < 1}
        most = "the concept that you missed most" if len(missed) > 1 else "what you missed"
        what = most if quiz.missed else "what took a hint"
        rows.append(("a, at home" if done.inside else f"ddpquiz learn {weak}", f"read about {what}"))
    if done.made_due:
        cards = f"{plural(done.made_due, 'card')} became due because of these answers"
        rows.append(("s, at home" if done.inside else "ddpquiz study", cards))
    if score and score.answered < score.asked and not (quiz.retry and quiz.missed):  # those are all the same command
        command = f"{test} --wrong" if quiz.retry else done.command.whole or test
        left = _questions(score.asked - score.answered)
        rows.append((command, f"go on: {left} not answered yet" if quiz.retry else f"ask more; {left} had no answer"))
    if not rows:
        concepts = {posed.question.concept for posed in quiz.asked} & done.concepts.keys()
        harder = any(one.level is Level.HARD for name in concepts for one in done.concepts[name].questions)
        hardest = all(posed.question.level is Level.HARD for posed in quiz.asked)
        rows = [
            (f"{test} --level hard", "harder ones")
            if harder and not hardest
            else ("ddpquiz test", "questions about other concepts too")
        ]
    return Commands(rows)


def _score(score: LevelScore, *, exam: bool = False) -> str:
    """How many answers were right, and how many questions have no answer."""
    skipped = score.asked - score.answered
    return _right(score, exam=exam) + (f", {skipped} not answered" if skipped and score.answered else "")


def _right(score: LevelScore, *, exam: bool) -> str:
    """How many answers were right; in an exam, of all questions."""
    if not score.answered:
        return f"{score.asked} not answered"
    earned = f", {score.credit:g} earned" if score.credit != score.right else ""
    return f"{score.right} of {score.asked if exam else score.answered} right{earned}"


def _questions(count: int) -> str:
    return plural(count, "question")
