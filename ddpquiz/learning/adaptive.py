"""Which question to ask next when each answer so far counts: the one that is expected to tell most."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from ddpquiz.learning.judge import chance
from ddpquiz.learning.mastery import Belief, Label

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ddpquiz.curriculum.concept import Question
    from ddpquiz.curriculum.pose import Posed


def pick(pool: Iterable[Posed], asked: Sequence[Posed], answers: Iterable[tuple[Question, float]]) -> Posed | None:
    """Return the question of a pool that tells most about its concept, by mastery's model and this sitting alone.

    `answers` are questions with the credit that was earned. A concept that is shown to be strong or weak is asked about
    no more; None when no question is left.
    """
    beliefs: dict[str, Belief] = defaultdict(Belief)
    counts = Counter[str]()
    for question, credit in answers:
        beliefs[question.concept] = beliefs[question.concept].after(question.level, chance(question), credit)
        counts[question.concept] += 1
    known = {name for name in counts if beliefs[name].label(counts[name]) in (Label.STRONG, Label.WEAK)}
    done = {posed.question.key for posed in asked}
    open_ = [one for one in pool if one.question.key not in done and one.question.concept not in known]

    def told(posed: Posed) -> float:
        question = posed.question
        return beliefs[question.concept].information(question.level, chance(question))

    return max(open_, key=told, default=None)
