"""Questions on the screen: asked, timed and judged."""

import math
from collections.abc import Callable
from datetime import timedelta

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.curriculum.concept import CodeProof, Kind, Option, Question
from ddpquiz.curriculum.posed_question import Posed
from ddpquiz.learning.graded_answer import Answer
from ddpquiz.learning.instruction import instruction
from ddpquiz.learning.judge import Verdict, answered, chance, chosen_line, expected
from ddpquiz.learning.quiz_state import Quiz
from ddpquiz.terminal.kit.layout import Folded, columns, indented, numbered, section
from ddpquiz.terminal.kit.style import code, plain, prose
from ddpquiz.terminal.sittings import spot_view
from ddpquiz.terminal.sittings.answer_entry import Entry
from ddpquiz.terminal.sittings.sitting import header

IN_EXAM = "An exam has no hints, solutions or demos; s goes to the next question."
_EXAM = "An exam: the verdicts come at its end, and until then you can go back and change every answer."
_HOW_SURE = "You answered {given}. How sure are you: 1 {least}, 2 unsure, 3 fairly sure, 4 sure?"
_HURRY = 5  # seconds; from then on the clock is marked


def where(quiz: Quiz, posed: Posed, *, flagged: bool = False, path: str = "") -> Text:
    """Draw the header of the question on screen; `path` is the place in a guided path, if there is one."""
    question = posed.question
    sort = "looking back" if quiz.looked else "once more" if quiz.retry else "exam" if quiz.rules.exam else ""
    most = f" of at most {quiz.most}" if quiz.rules.adaptive else f"/{quiz.most}"
    flag = "flagged" if flagged else ""
    return header(path, f"Question {quiz.number}{most}", sort, question.level, question.concept, flag)


def remark(quiz: Quiz) -> str:
    """Return a remark about the question on screen."""
    if quiz.posed is None:
        return ""
    if quiz.pending:
        pending = quiz.pending
        least = "a guess" if chance(pending.posed.question) else "probably wrong"  # nobody guesses what is typed
        return _HOW_SURE.format(given=plain(answered(pending.posed, pending.given)), least=least)
    if quiz.given:
        return f"Your answer is {plain(answered(quiz.given.posed, quiz.given.given))}. You can change it."
    if quiz.rules.exam and not quiz.place:
        return f"{_EXAM} It ends early once enough is known." if quiz.rules.adaptive else _EXAM
    return ""


def asked(posed: Posed, hints: int, typed: str | None = None) -> list[RenderableType]:
    """Draw a question, the hints, and, if `typed` is given, which options are chosen so far."""
    question = posed.question
    parts = stem(question, typed)
    chosen = set(typed or "") if question.kind is Kind.CHOICES else set()
    for place, text in enumerate(_choices(posed), 1):
        mark = ("[x]" if str(place) in chosen else "[ ]") if question.kind is Kind.CHOICES and typed is not None else ""
        parts.append(columns([(Text(f" {mark}{' ' if mark else ''}{place}", style="key"), text)]))
    for number, hint in enumerate(question.hints[:hints], 1):
        parts += [Text(), Text.assemble((f"Hint {number}  ", "warn"), prose(hint))]
    return parts


def judged(answer: Answer) -> list[RenderableType]:
    """Draw the right answer, why the others are wrong, the steps, and a check."""
    posed, question = answer.posed, answer.posed.question
    parts: list[RenderableType] = []
    if question.options:
        chosen = answer.verdict.chosen
        missed = question.kind is Kind.CHOICES and not answer.verdict.right and bool(chosen)
        options = [(place, question.options[index]) for place, index in enumerate(posed.shown)]
        # The chosen ones first, then the right ones
        options.sort(key=lambda each: (each[0] not in chosen, not each[1].right))
        parts += [
            _judged_option(place + 1, one, chosen=place in chosen, missed=missed and one.right and place not in chosen)
            for place, one in options
        ]
    elif question.kind is Kind.SPOT:
        parts += spot_view.judged(question, answer.verdict)
    else:
        parts.append(_right_answer(answer))
        parts += [Text(), *(prose(why) for why in answer.verdict.whys)] if answer.verdict.whys else []
    if question.steps:
        parts += section("Steps", numbered(map(prose, question.steps)))
    if question.check:
        parts += section("Check", prose(question.check))
    return parts


def stem(question: Question, typed: str | None = None) -> list[RenderableType]:
    """Draw a question without its options or lines; the line of a script that is `typed` so far is marked."""
    unit = f" The unit is {plain(question.unit)}." if question.unit else ""
    how = Text(instruction(question) + unit, style="quiet")
    parts: list[RenderableType] = [prose(question.ask, "bold"), how, Text()]
    if question.kind is Kind.SPOT:
        parts += [spot_view.script(question, chosen_line(question, typed or "")), Text()]
    elif question.code:
        from ddpquiz.terminal.kit.highlight import python

        parts += [indented(python(question.code)), Text()]
    return parts


def _choices(posed: Posed) -> list[Text]:
    question = posed.question
    if question.options:
        options = [question.options[index] for index in posed.shown]
        return [code(option.text) if option.code else prose(option.text) for option in options]
    return [prose(question.lines[index].text) for index in posed.shown] if question.lines else []


def verdict_view(answer: Answer, around: Callable[[int], RenderableType]) -> RenderableType:
    """Draw a question with its solution so that both fit a small terminal; `around` draws the rest of the screen."""
    ask, more = prose(answer.posed.question.ask, "bold"), stem(answer.posed.question)[1:-1]
    return Folded(ask, more, [Text(), *judged(answer)], title="The question", around=around)


def answer_text(posed: Posed, given: str, verdict: Verdict) -> str:
    """Return an answer in words: the texts of the options that were chosen, or what was typed."""
    options = posed.question.options
    texts = [options[posed.shown[place]].text for place in verdict.chosen] if options else []
    return "; ".join(texts) or answered(posed, given)


def field(question: Question, entry: Entry) -> Text:
    """Draw what was typed so far; it stands in the foot, so that it is visible below a long question."""
    return Text.assemble(("> ", "accent"), entry.area.line(), f" {plain(question.unit)}")


def is_calculation(question: Question) -> bool:
    """Return whether the proof of a question runs in one process without communication."""
    proof = question.proof
    return isinstance(proof, CodeProof) and proof.ranks == "1" and "dist." not in (proof.code or question.code)


def _judged_option(place: int, option: Option, *, chosen: bool, missed: bool) -> RenderableType:
    mark, style = ("✓", "good") if option.right else ("✗", "bad") if chosen else (" ", "quiet")
    text = code(option.text) if option.code else prose(option.text)
    label = Text(f"{mark}{'>' if chosen else ' '}{place}", style=style)
    more = [Text("missed: this is right too", style="warn")] if missed else []
    return columns([(label, Group(text, *more, *([prose(option.why, "quiet")] if option.why else [])))])


def verdict(answer: Answer) -> Text:
    """Return in one line whether an answer is right."""
    if answer.late and not answer.given:
        return Text("Time is up, without an answer. Take your time to read the solution.", style="warn")
    if answer.solved:
        return Text("This is the solution; the question earns nothing.", style="warn")
    late = "Time is up: what you had entered is your answer. " if answer.late else ""
    if not answer.verdict.right:
        return Text(f"{late}✗ Wrong.", style="bad")
    return Text(f"{late}✓ Right{', with a hint: half a point' if answer.hints else ''}.", style="good")


def _right_answer(answer: Answer) -> RenderableType:
    posed, lines = answer.posed, answer.posed.question.lines
    given, right = answered(posed, answer.given), expected(posed)
    yours = [(Text("yours", style="quiet"), Text(plain(given)))] if given and given != right else []
    rows = columns([*yours, (Text("right", style="good"), Text(plain(right)))])
    order = [(Text(f" {posed.shown.index(i) + 1}", style="key"), prose(line.text)) for i, line in enumerate(lines)]
    return Group(rows, *([columns(order)] if order else []))


def remaining(left: timedelta) -> Text:
    """Draw the time that is left, in whole seconds; the last second shows as 1, since at 0 the time is over."""
    seconds = math.ceil(left.total_seconds())
    minutes = f"{seconds // 60}:{seconds % 60:02}" if seconds >= 60 else f"{seconds} s"
    return Text(f"{minutes} left", style="warn" if seconds <= _HURRY else "quiet")


def until_change(left: timedelta) -> float:
    """Return the seconds until the clock shows another number, or is over."""
    seconds = left.total_seconds()
    return max(0.01, seconds - (math.ceil(seconds) - 1))
