"""When a concept is complete: how many items of each kind it needs, and how long its texts may be."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ddpquiz.curriculum.concept import Level

if TYPE_CHECKING:
    from ddpquiz.curriculum.concept import Concept
    from ddpquiz.curriculum.fields import Fields

COUNTS = {  # key: minimum and maximum
    "cards": (6, 10),
    "questions": (9, 15),
    "explain": (2, 2),
    "remember": (3, 6),
    "mistakes": (2, 9),
    "demos": (1, 9),
}
LESSON_WORDS = (120, 1_000)  # outside of code blocks
BACK_WORDS = 40
POINTS = (3, 5)
KINDS = 4
_FENCE = re.compile(r"^ *(```|~~~)", re.MULTILINE)
_FENCED = re.compile(r"^ *(```|~~~).*?^ *\1[`~]*[ ]*$", re.MULTILINE | re.DOTALL)


def check_complete(record: Fields, concept: Concept) -> None:
    """Complain about everything of which a concept has too little or too much."""
    for name, (least, most) in COUNTS.items():
        have = len(getattr(concept, name))
        if have and not least <= have <= most:
            record.complain(name, f"{have}, but a concept has {_span(least, most)}")
    have = words(concept.lesson)
    if concept.lesson and not LESSON_WORDS[0] <= have <= LESSON_WORDS[1]:
        record.complain("lesson", f"{have} words; {_span(*LESSON_WORDS)} are right, without code blocks")
    for name in ("why", "lesson"):
        if _FENCE.search(_FENCED.sub("", getattr(concept, name))):
            record.complain(name, "a code block is never closed")
    if not concept.questions:
        return
    missing = [str(level) for level in Level if level not in {question.level for question in concept.questions}]
    if missing:
        record.complain("questions", f"no question is {' or '.join(missing)}; a concept needs all three levels")
    kinds = sorted({str(question.kind) for question in concept.questions})
    if len(kinds) < KINDS:
        record.complain("questions", f"only {len(kinds)} kinds ({', '.join(kinds)}); a concept needs at least {KINDS}")


def words(markdown: str) -> int:
    """Count the words of a Markdown text without its code blocks."""
    return len(_FENCED.sub("", markdown).split())


def _span(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} to {most}"
