"""Which questions a quiz asks: chosen beforehand, or one by one in an adaptive quiz."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ddpquiz.curriculum.concept import Level, Question
from ddpquiz.curriculum.posed_question import Posed
from ddpquiz.learning.judge import chance
from ddpquiz.learning.mastery import Belief, Label
from ddpquiz.learning.quiz_state import Quiz

_LEVELS = tuple(Level)


def choose_questions(
    questions: Sequence[Question], count: int, dice: random.Random, known: Mapping[str, int] | None = None
) -> list[Question]:
    """Choose questions so that concepts, levels and kinds are spread evenly; easier ones come first.

    `known` is how often a question was answered right before: those come after the others.
    """
    known = known or {}
    left = list(questions)
    dice.shuffle(left)
    concepts, levels, kinds = Counter[str](), Counter[str](), Counter[str]()
    chosen: list[Question] = []
    while left and len(chosen) < count:
        best = min(left, key=lambda q: (concepts[q.concept], levels[q.level], known.get(q.key, 0), kinds[q.kind]))
        left.remove(best)
        chosen.append(best)
        concepts[best.concept] += 1
        levels[best.level] += 1
        kinds[best.kind] += 1
    return sorted(chosen, key=lambda question: _LEVELS.index(question.level))


def ask_next(quiz: Quiz) -> Quiz:
    """Add the most informative question to an adaptive quiz that has asked all, unless it knows enough."""
    if quiz.place < len(quiz.asked) or len(quiz.asked) >= quiz.rules.adaptive:
        return quiz
    answers = [(answer.posed.question, answer.credit) for answer in quiz.answers]
    best = most_informative(quiz.pool, quiz.asked, answers)
    return replace(quiz, asked=(*quiz.asked, best)) if best else quiz


def most_informative(
    pool: Iterable[Posed], asked: Sequence[Posed], answers: Iterable[tuple[Question, float]]
) -> Posed | None:
    """Return the question of a pool that is most informative about its concept, by the answers of this sitting alone.

    `answers` are questions with the credit that was earned. Concepts that are clearly strong or weak are not asked
    about any more; None when no question is left.
    """
    beliefs: dict[str, Belief] = defaultdict(Belief)
    counts = Counter[str]()
    for question, credit in answers:
        beliefs[question.concept] = beliefs[question.concept].after(question.level, chance(question), credit)
        counts[question.concept] += 1
    known = {name for name in counts if beliefs[name].label(counts[name]) in (Label.STRONG, Label.WEAK)}
    done = {posed.question.key for posed in asked}
    open_ = [one for one in pool if one.question.key not in done and one.question.concept not in known]

    def information(posed: Posed) -> float:
        question = posed.question
        return beliefs[question.concept].information(question.level, chance(question))

    return max(open_, key=information, default=None)
