"""The points of an explanation as they were judged: which were made, by which words, and which were not found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from ddpquiz.terminal.kit.layout import columns
from ddpquiz.terminal.kit.style import plain, prose

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddpquiz.learning.explain import Explanation, JudgedPoint

LOOKED = "Looked for words, not for meaning: you decide which points you made."


def points(explanation: Explanation) -> list[RenderableType]:
    """Draw how many points were made, and each with the words that showed it."""
    rows = [(_mark(number, point), _said(point)) for number, point in enumerate(explanation.points, 1)]
    return [Text(count(explanation), style="head"), Text(LOOKED, style="quiet"), Text(), columns(rows)]


def count(explanation: Explanation) -> str:
    """Say how many points were made."""
    return f"You got {explanation.made} of {len(explanation.points)} points."


def _mark(number: int, point: JudgedPoint) -> Text:
    return Text.assemble(("✓ ", "good") if point.made else ("✗ ", "bad"), (f"{number}", "key"))


def _said(point: JudgedPoint) -> RenderableType:
    if point.overruled:
        why = ["overruled by you"]
    elif point.words:
        why = [f"you said: {', '.join(point.words)}"]
    else:
        told = {"you said the other way round": point.contrary, "not found": point.absent}
        why = [f"{how}: {', '.join(words)}" for how, words in told.items() if words]
    return Group(prose(point.point.say), Text(plain(" · ".join(why)), style="quiet"))
