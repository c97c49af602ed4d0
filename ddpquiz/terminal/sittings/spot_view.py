"""The script of a `spot` question on the screen: numbered lines, the chosen one marked, and its verdict."""

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.curriculum.concept import Question
from ddpquiz.curriculum.spot import fault, script_lines
from ddpquiz.learning.judge import Verdict
from ddpquiz.terminal.kit.grid import FOCUS
from ddpquiz.terminal.kit.layout import columns, section
from ddpquiz.terminal.kit.style import plain, prose


def script(question: Question, chosen: int | None = None) -> RenderableType:
    """Draw the script; `chosen` is the place of a line, from 0."""
    lines = enumerate(_lines(question.code))
    return columns((_number(place, ">" if place == chosen else " "), line) for place, line in lines)


def judged(question: Question, verdict: Verdict) -> list[RenderableType]:
    """Draw the chosen line with why it is not at fault, the line at fault, and what should stand there."""
    at_fault, lines = fault(question), script_lines(question)
    rows: list[tuple[Text, RenderableType]] = []
    for place in verdict.chosen:
        if place != at_fault:
            why = verdict.whys or ("The fault is in another line.",)
            shown = Group(_code(lines[place]), *(prose(each, "quiet") for each in why))
            rows.append((_number(place, "✗>", "bad"), shown))
    mark = "✓>" if at_fault in verdict.chosen else "✓ "
    rows.append((_number(at_fault, mark, "good"), Group(_code(lines[at_fault]), Text("at fault", style="quiet"))))
    return [columns(rows), *section("Fixed", columns([(_number(at_fault, " "), _code(question.fix))]))]


def _number(place: int, mark: str, style: str = "quiet") -> Text:
    number = Text(f"{mark}{place + 1:>2}", style="key" if mark == ">" else style)
    if mark == ">":
        number.stylize(FOCUS)
    return number


def _code(text: str) -> Text:
    return Text("\n").join(_lines(text))


def _lines(text: str) -> list[Text]:
    from ddpquiz.terminal.kit.highlight import python_lines  # most questions need no highlighter

    return python_lines(plain(text))
