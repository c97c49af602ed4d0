"""The score of a quiz: by concept, by level, by kind, and as a whole; and the calibration of its answers."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ddpquiz.curriculum.posed_question import Posed
from ddpquiz.learning.quiz import Answer, Quiz
from ddpquiz.learning.statistics import Calibration, calibration


@dataclass(frozen=True, slots=True)
class LevelScore:
    """The score of a group of questions; skipped ones earn nothing and are counted separately."""

    asked: int
    answered: int
    right: int
    credit: float


def scores(quiz: Quiz, group: str) -> dict[str, LevelScore]:
    """The score by `concept`, `level` or `kind`, or by `""` of the whole quiz, in the order of asking."""
    answers = {id(answer.posed): answer for answer in quiz.answers}
    groups: dict[str, list[Posed]] = {}
    for posed in quiz.asked:
        groups.setdefault(str(getattr(posed.question, group)) if group else "", []).append(posed)
    return {name: _score([answers.get(id(posed)) for posed in members]) for name, members in groups.items()}


def weakest_concept(quiz: Quiz) -> str | None:
    """The concept that lost most credit, or None when nothing was wrong."""
    lost = Counter[str]()
    for answer in quiz.answers:
        if answer.credit < 1:
            lost[answer.posed.question.concept] += round(2 * (1 - answer.credit))
    return max(sorted(lost), key=lambda concept: lost[concept], default=None)


def calibration_of(quiz: Quiz) -> Calibration | None:
    """The calibration of the answers; None if no answer has a confidence."""
    return calibration((each.confidence, each.verdict.right) for each in quiz.answers if each.confidence is not None)


def _score(answers: Sequence[Answer | None]) -> LevelScore:
    given = [answer for answer in answers if answer]
    return LevelScore(
        credit=sum(answer.credit for answer in given),
        right=sum(answer.right for answer in given),
        answered=len(given),
        asked=len(answers),
    )
