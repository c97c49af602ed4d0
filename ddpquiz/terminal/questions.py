"""Questions on the screen: asked, and judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from ddpquiz.curriculum.concept import Kind
from ddpquiz.learning.judge import expected
from ddpquiz.terminal.layout import columns, indented, numbered, section
from ddpquiz.terminal.sitting import header
from ddpquiz.terminal.style import code, plain, prose

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddpquiz.curriculum.concept import Option, Question
    from ddpquiz.curriculum.pose import Posed
    from ddpquiz.learning.quiz import Answer, Quiz

_HOW = {
    Kind.CHOICE: "one is right",
    Kind.CHOICES: "several are right, and all of them are needed",
    Kind.NUMBER: "a number",
    Kind.ORDER: "the numbers of the lines, in the right order",
    Kind.OUTPUT: "what is printed",
}


def where(quiz: Quiz) -> Text:
    """Draw the header of the question on screen."""
    question = quiz.asked[quiz.place].question
    sort = "once more" if quiz.retry else "exam" if quiz.rules.exam else ""
    most = f" of at most {quiz.most}" if quiz.rules.adaptive else f"/{quiz.most}"
    return header(f"Question {quiz.place + 1}{most}", sort, question.level, question.concept)


def asked(posed: Posed, hints: int, typed: str | None = None) -> list[RenderableType]:
    """Draw a question, what was chosen so far where keys are read one by one, and the hints that were asked for."""
    question = posed.question
    parts = stem(question)
    chosen = set(typed or "") if question.kind is Kind.CHOICES else set()
    for place, text in enumerate(_choices(posed), 1):
        mark = ("[x]" if str(place) in chosen else "[ ]") if question.kind is Kind.CHOICES and typed is not None else ""
        parts.append(_choice(place, text, mark))
    for number, hint in enumerate(question.hints[:hints], 1):
        parts += [Text(), Text.assemble((f"Hint {number}  ", "warn"), prose(hint))]
    return parts


def judged(answer: Answer) -> list[RenderableType]:
    """Draw what is right, why the rest is wrong, the steps, and a check."""
    posed, question = answer.posed, answer.posed.question
    parts: list[RenderableType] = []
    if question.options:
        for place, index in enumerate(posed.shown):
            chosen = place in answer.verdict.chosen
            parts += _judged_option(place + 1, question.options[index], chosen=chosen)
    else:
        parts.append(_right_answer(answer))
        parts += [Text(), *(prose(why) for why in answer.verdict.whys)] if answer.verdict.whys else []
    if question.steps:
        parts += section("Steps", numbered(map(prose, question.steps)))
    if question.check:
        parts += section("Check", prose(question.check))
    return parts


def stem(question: Question) -> list[RenderableType]:
    """Draw what is asked, without anything to choose from."""
    parts: list[RenderableType] = [prose(question.ask, "bold"), Text(_HOW[question.kind], style="quiet"), Text()]
    if question.code:
        from ddpquiz.terminal.highlight import python

        parts += [indented(python(question.code)), Text()]
    return parts


def _choices(posed: Posed) -> list[Text]:
    question = posed.question
    if question.options:
        options = [question.options[index] for index in posed.shown]
        return [code(option.text) if option.code else prose(option.text) for option in options]
    return [prose(question.lines[index].text) for index in posed.shown] if question.lines else []


def _choice(place: int, text: Text, mark: str) -> RenderableType:
    return columns([(Text(f" {mark}{' ' if mark else ''}{place}", style="key"), text)])


def field(question: Question, typed: str) -> Text:
    """Draw what was typed so far; it belongs to the foot, so that it is in sight however tall the question is."""
    return Text.assemble(("> ", "accent"), plain(typed), ("_", "accent"), f" {plain(question.unit)}")


def _judged_option(place: int, option: Option, *, chosen: bool) -> list[RenderableType]:
    mark, style = ("✓", "good") if option.right else ("✗", "bad") if chosen else (" ", "quiet")
    text = code(option.text) if option.code else prose(option.text)
    label = Text(f"{mark}{'>' if chosen else ' '}{place}", style=style)
    return [columns([(label, Group(text, *([prose(option.why, "quiet")] if option.why else [])))])]


def verdict(answer: Answer) -> Text:
    """Say in a line whether an answer is right."""
    if answer.late:
        return Text("Time is up; it counts as no answer. Take your time now to see how it goes.", style="warn")
    if answer.solved:
        return Text("This is the solution; it earns nothing.", style="warn")
    if not answer.verdict.right:
        return Text("✗ Wrong.", style="bad")
    if answer.told:
        return Text("✓ Right, but the answer was shown before: it earns nothing.", style="warn")
    return Text("✓ Right, with a hint: half the credit." if answer.hints else "✓ Right.", style="good")


def _right_answer(answer: Answer) -> RenderableType:
    posed, lines = answer.posed, answer.posed.question.lines
    yours = [(Text("yours", style="quiet"), Text(plain(answer.given)))]
    yours = yours if answer.given and not answer.verdict.right else []
    rows = columns([*yours, (Text("right", style="good"), Text(plain(expected(posed))))])
    order = [(Text(f" {posed.shown.index(i) + 1}", style="key"), prose(line.text)) for i, line in enumerate(lines)]
    return Group(rows, *([columns(order)] if order else []))
