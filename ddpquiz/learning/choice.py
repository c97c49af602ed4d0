"""Which questions a quiz asks when all of them are chosen beforehand."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ddpquiz.curriculum.concept import Level

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

    from ddpquiz.curriculum.concept import Question

_LEVELS = tuple(Level)


def choose(
    questions: Sequence[Question], count: int, dice: random.Random, known: Mapping[str, int] | None = None
) -> list[Question]:
    """Choose questions so that concepts, levels and kinds are spread evenly; easier ones come first.

    `known` tells how often a question was answered right before: those wait for the others.
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
