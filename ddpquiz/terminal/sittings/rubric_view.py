"""The points of an explanation: which are ticked, by which words, and the model answer to compare with."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.learning.explain import CheckedPoint, Explanation
from ddpquiz.terminal.kit.layout import bullets, columns, indented, section
from ddpquiz.terminal.kit.style import plain, prose

HOW = "A tick means that one of the point's words occurs in your text. You decide: a number changes a tick."
MARKS = {True: ("✓ ", "good"), False: ("✗ ", "bad")}
HOW_BY_JUDGE = "Ticked by the program that you named. You decide: a number changes a tick."


def check(explanation: Explanation) -> list[RenderableType]:
    """Draw a model answer, and each point with the words that ticked it."""
    answer = indented(prose(explanation.prompt.answer))
    parts: list[RenderableType] = [Text("A model answer", style="head"), answer, Text()]
    if explanation.opinion and explanation.opinion.remark:
        parts += [Text(plain(explanation.opinion.remark), style="accent"), Text()]
    how = HOW_BY_JUDGE if explanation.opinion else HOW
    rows = [
        (Text.assemble(MARKS[point.made], (f"{number}", "key")), _point(point, explanation))
        for number, point in enumerate(explanation.points, 1)
    ]
    return [*parts, Text(count(explanation), style="head"), Text(how, style="quiet"), Text(), columns(rows)]


def count(explanation: Explanation) -> str:
    """Return how many points were made, as a sentence."""
    return f"You made {explanation.made} of {len(explanation.points)} points."


def summary(done: Sequence[Explanation]) -> RenderableType:
    """Draw the result of a sitting: how many points were made, and which were left out."""
    if not done:
        return Text("Done: nothing explained.", style="head")
    made, asked = sum(one.made for one in done), sum(len(one.points) for one in done)
    parts: list[RenderableType] = [Text(f"Done: you made {made} of {asked} points.", style="head")]
    missed = [prose(point.point.say) for one in done for point in one.points if not point.made]
    if missed:
        parts += section("Left out", bullets(missed))
    concept = done[-1].prompt.concept
    rows = [(f"ddpquiz learn {concept}", "read about it")] if missed else []
    rows.append((f"ddpquiz test {concept}", "find out how strong you are"))
    return Group(*parts, *section("Next", columns((Text(plain(c), style="code"), Text(what)) for c, what in rows)))


def _point(point: CheckedPoint, explanation: Explanation) -> RenderableType:
    why = ""
    if point.overruled:
        why = "changed by you"
    elif point.words:
        why = f"found: {', '.join(point.words)}"
    elif not explanation.opinion:
        why = f"not found: {', '.join(point.point.words)}"
    say = prose(point.point.say)
    return Group(say, Text(plain(why), style="quiet")) if why else say
