"""A question on the screen: how it is drawn, answered key by key, and judged."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.curriculum.concept import CodeProof, Kind, Option, Question
from ddpquiz.curriculum.posed_question import Posed, expected
from ddpquiz.curriculum.question_code import choosable_lines, fault_line, script_lines
from ddpquiz.learning.judge import answered, chance, chosen_line, instruction
from ddpquiz.terminal.kit.grid import FOCUS
from ddpquiz.terminal.kit.key_screen import Hotkey
from ddpquiz.terminal.kit.keys import typed
from ddpquiz.terminal.kit.layout import Folded, columns, header, indented, numbered, section
from ddpquiz.terminal.kit.style import code, labeled, plain, prose
from ddpquiz.terminal.kit.text_area import TextArea
from ddpquiz.terminal.kit.typing_screen import TypingScreen

if TYPE_CHECKING:
    from ddpquiz.learning.judge import Verdict
    from ddpquiz.learning.quiz import Answer, Quiz

_SUBMIT = Hotkey("enter", "answer", "submit your answer (← → home end move within it, ctrl+u clears it)")
_CHOOSE_LINE = Hotkey("↑ ↓", "choose", "move the mark up or down, or type a line's number", also=tuple("0123456789"))
COMMANDS = frozenset("hxsdufq?")  # the keys of a question besides those that answer it
_WIDE = 1_000_000  # columns: an answer is one line
_EMPTY = TextArea()


@dataclass(frozen=True, slots=True)
class Entry:
    """What was entered so far; `given` is true once it is submitted as the answer."""

    area: TextArea = _EMPTY
    given: bool = False

    @classmethod
    def of(cls, answer: Answer | None) -> Entry:
        """The entry that repeats an answer; it is empty if a single key gives the answer."""
        repeats = answer and answer.posed.question.kind is not Kind.CHOICE
        return cls(TextArea().insert(answer.given)) if answer and repeats else cls()

    @property
    def text(self) -> str:
        return self.area.text

    def key(self, key: str, question: Question) -> Entry:
        """The entry after a key; a key that means nothing here changes nothing."""
        if question.kind is Kind.CHOICE:
            return Entry(TextArea(key), given=True) if _is_place(key, question) else self
        if question.kind is Kind.SPOT and (text := self._line(key, question)) is not None:
            return replace(self, area=TextArea().insert(text))
        match key:
            case "enter":
                return replace(self, given=True)
            case "up" | "down" | "tab":
                return self
            case _ if is_typed(question):
                area = self.area.insert(text) if (text := typed(key)) else self.area.key(key, _WIDE)
                return replace(self, area=area)
            case "backspace" | "ctrl+u":
                return replace(self, area=TextArea().insert(self.text[:-1] if key == "backspace" else ""))
            case _ if question.kind is Kind.CHOICES and _is_place(key, question):
                return replace(self, area=TextArea().insert("".join(sorted(set(self.text) ^ {key}))))
        return self

    def _line(self, key: str, question: Question) -> str | None:
        """The number of a line of a script as it is after a key, or None if the key does not change it."""
        now, lines = chosen_line(question, self.text), choosable_lines(question)
        match key:
            case "down":
                return str(next((place for place in lines if now is None or place > now), lines[-1]) + 1)
            case "up":
                return str(next((place for place in reversed(lines) if now is None or place < now), lines[0]) + 1)
            case _ if key.isdecimal() and len(key) == 1:
                longer = self.text + key
                return longer if 1 <= int(longer) <= lines[-1] + 1 else key if key != "0" else None
        return None

    def keys(self, question: Question) -> list[Hotkey]:
        count = len(question.options or question.lines)
        match question.kind:
            case Kind.CHOICE:
                return [Hotkey(f"1-{count}", "answer")]
            case Kind.CHOICES:
                return [Hotkey(f"1-{count}", "choose", "choose an option; the same key again undoes that"), _SUBMIT]
            case Kind.SPOT:
                return [_CHOOSE_LINE, Hotkey("enter", "answer", "the marked line is your answer")]
            case _:
                return [_SUBMIT]


class AnswerScreen(TypingScreen):
    """A screen on which questions are answered: a number, an order and an output are typed, the rest is chosen."""

    entry = Entry()

    @property
    @abstractmethod
    def answering(self) -> Posed | None:
        """The question that keys answer now."""

    @abstractmethod
    def submit(self, text: str) -> None:
        """Accept an answer."""

    @property
    def typing(self) -> Posed | None:
        """The question whose answer is typed now."""
        return self.answering if self.answering and is_typed(self.answering.question) else None

    @property
    def focus(self) -> str:
        return self.entry.text

    @property
    def writing(self) -> bool:
        return self.typing is not None

    @property
    def letters_are_keys(self) -> bool:
        posed = self.typing
        return posed is not None and posed.question.kind is not Kind.OUTPUT and not self.text

    def answer_keys(self, question: Question) -> list[Hotkey]:
        """The keys that answer a question, and those besides them that need no escape now."""
        if self.escaped:
            return self.escape_keys()
        own = self.entry.keys(question)
        return own if self.writing and not self.letters_are_keys else [*own, *self.escape_keys()]

    def enter(self, key: str) -> None:
        posed = self.answering
        if posed is None:
            return
        if self.letters_are_keys and len(key) == 1 and key.isalpha() and not self._begins_formula(key):
            self.note = self.missing(key, self.all_keys())
            return
        count = len(posed.question.options)
        if count and key.isdecimal() and not _is_place(key, posed.question):
            self.note = f"There is no option {key}; choose from 1 to {count}."
        self.entry = self.entry.key(key, posed.question)
        if not self.entry.given:
            return
        self.entry = replace(self.entry, given=False)
        if is_command(text := self.entry.text, posed.question):
            self.entry, self.note = Entry(), f"`{text.strip()}` is a key: press esc, then {text.strip()}."
        else:
            self.submit(text)

    def _begins_formula(self, key: str) -> bool:
        """Whether a letter may begin an answer: `sqrt` or `log2`."""
        return self.typing is not None and self.typing.question.kind is Kind.NUMBER and key in "sl"

    @property
    def text(self) -> str:
        return self.entry.area.text

    def changes_text(self, key: str) -> bool:
        """Whether a key changes what was entered: `↑` and `↓` mark a line of a script."""
        return self.answering is not None and self.entry.key(key, self.answering.question) != self.entry


def is_typed(question: Question) -> bool:
    """Whether the answer to a question is typed, so that letters are text."""
    return question.kind in (Kind.NUMBER, Kind.ORDER, Kind.OUTPUT)


def is_command(text: str, question: Question) -> bool:
    """Whether the text of an answer was probably meant as a command."""
    return is_typed(question) and text.strip() in COMMANDS and text.strip() != question.answer


def _is_place(key: str, question: Question) -> bool:
    return key.isdecimal() and 1 <= int(key) <= len(question.options)


# Questions on the screen: asked, timed and judged.

IN_EXAM = "An exam has no hints, solutions or demos; s goes to the next question."
_EXAM = "An exam: the verdicts come at its end, and until then you can go back and change every answer."
_HOW_SURE = "You answered {given}. How sure are you: 1 {least}, 2 unsure, 3 fairly sure, 4 sure?"
_HURRY = 5  # seconds; from then on the clock is marked


def question_header(quiz: Quiz, title: str, *, flagged: bool = False, path: str = "") -> Text:
    """Draw the header of the question on screen: `title` is that of its concept, `path` a place in a guided path."""
    level = quiz.posed.question.level if quiz.posed else ""
    sort = "looking back" if quiz.looked else "once more" if quiz.retry else "exam" if quiz.rules.exam else ""
    most = f" of at most {quiz.most}" if quiz.rules.adaptive else f"/{quiz.most}"
    flag = "flagged" if flagged else ""
    return header(path, f"Question {quiz.number}{most}", sort, level, title, flag)


def remark(quiz: Quiz) -> str:
    """A remark about the question on screen."""
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
    how = Text(plain(instruction(question)), style="quiet")
    parts: list[RenderableType] = [prose(question.ask, "bold"), how, Text(), *_about(question, typed)]
    chosen = set(typed or "") if question.kind is Kind.CHOICES else set()
    for place, text in enumerate(_choices(posed), 1):
        mark = ("[x]" if str(place) in chosen else "[ ]") if question.kind is Kind.CHOICES and typed is not None else ""
        parts.append(columns([(Text(f" {mark}{' ' if mark else ''}{place}", style="key"), text)]))
    for number, hint in enumerate(question.hints[:hints], 1):
        parts += [Text(), labeled(f"Hint {number}  ", "warn", hint)]
    return parts


def judged(answer: Answer) -> list[RenderableType]:
    """Draw the right answer, why the others are wrong, the steps, and a check; `verdict` has said why yours is."""
    check = answer.posed.question.check
    cross = section("Cross-check", prose(check)) if check else []
    return [*_solution(answer), *_steps(answer.posed.question), *cross]


def short_view(answer: Answer, *, steps: bool = False) -> list[RenderableType]:
    """Draw the right answer and the one given, without the other answers; `steps` says whether with the steps."""
    return [*_solution(answer, others=False), *(_steps(answer.posed.question) if steps else [])]


def stem(question: Question) -> list[RenderableType]:
    """Draw a question that was answered, without its options or lines."""
    return [prose(question.ask, "bold"), Text(), *_about(question)]


def _about(question: Question, typed: str | None = None) -> list[RenderableType]:
    """Draw the code that a question is about; the line of a script that is `typed` so far is marked."""
    if question.kind is Kind.SPOT:
        return [_script_view(question, chosen_line(question, typed or "")), Text()]
    return [code_of(question), Text()] if question.code else []


def code_of(question: Question) -> RenderableType:
    """Draw the code that a question is about."""
    from ddpquiz.terminal.kit.highlight import python

    return indented(python(question.code))


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


def answer_words(posed: Posed, given: str, verdict: Verdict) -> str:
    """An answer in words: the texts of the options that were chosen, or what was typed."""
    options = posed.question.options
    texts = [options[posed.shown[place]].text for place in verdict.chosen] if options else []
    return "; ".join(texts) or answered(posed, given)


def field(question: Question, entry: Entry) -> Text:
    """Draw what was typed so far; it stands in the foot, so that it is visible below a long question."""
    return Text.assemble(("> ", "accent"), entry.area.line(), f" {plain(question.unit)}")


def is_calculation(question: Question) -> bool:
    """Whether the proof of a question runs in one process, which neither communicates nor starts others."""
    proof = question.proof
    if not isinstance(proof, CodeProof) or proof.ranks != "1":
        return False
    return not re.search(r"\bdist\.|\bsubprocess\b|torchrun|elastic", proof.code or question.code)


def _judged_option(place: int, option: Option, *, chosen: bool, missed: bool, why: str) -> RenderableType:
    mark, style = ("✓", "good") if option.right else ("✗", "bad") if chosen else (" ", "quiet")
    text = code(option.text) if option.code else prose(option.text)
    label = Text(f"{mark}{'>' if chosen else ' '}{place}", style=style)
    more = [Text("missed: this is right too", style="warn")] if missed else []
    return columns([(label, Group(text, *more, *([prose(why, "quiet")] if why else [])))])


def verdict(answer: Answer, *, counts: bool = True) -> Text:
    """Whether an answer is right, and if not, first of all why: what the learner believed.

    Where it `counts`, that says what is earned.
    """
    if answer.late and not answer.given:
        return Text("Time is up, without an answer. Take your time to read the solution.", style="warn")
    if answer.gave_up:
        return Text(f"This is the solution{'; the question earns nothing' * counts}.", style="warn")
    late = "Time is up: what you had entered is your answer. " if answer.late else ""
    if not answer.verdict.right:
        wrong = f"{late}✗ Wrong{_partly(answer)}."
        said = prose(f"{wrong} {_belief(answer)}".rstrip())
        said.stylize("bad", 0, len(wrong))
        return said
    hinted = f", with a hint{': half a point' * counts}" if answer.hints else ""
    return Text(f"{late}✓ Right{hinted}.", style="good")


def is_explained(answer: Answer) -> bool:
    """Whether `verdict` or `short_view` says why a wrong answer is wrong, so that its steps can wait."""
    return answer.posed.question.kind is Kind.CHOICES or bool(_belief(answer))


def _solution(answer: Answer, *, others: bool = True) -> list[RenderableType]:
    """Draw the right answer and the one given, and on demand all `others`, each with the reason why it is wrong."""
    posed, question, said = answer.posed, answer.posed.question, _belief(answer)
    if question.options:
        chosen = answer.verdict.chosen
        missed = question.kind is Kind.CHOICES and not answer.verdict.right and bool(chosen)
        options = [(place, question.options[index]) for place, index in enumerate(posed.shown)]
        # The chosen ones first, then the right ones
        options.sort(key=lambda each: (each[0] not in chosen, not each[1].right))
        return [
            _judged_option(
                place + 1,
                one,
                chosen=place in chosen,
                missed=missed and one.right and place not in chosen,
                why="" if place in chosen and one.why == said else one.why,
            )
            for place, one in options
            if others or place in chosen or one.right
        ]
    if question.kind is Kind.SPOT and (others or not answer.right):
        return _judged_lines(question, answer.verdict, explained=bool(said))
    return [_right_answer(answer)]


def _steps(question: Question) -> list[RenderableType]:
    return section("Steps", numbered(map(prose, question.steps))) if question.steps else []


def _partly(answer: Answer) -> str:
    """How much of a wrong choice of several is right; "" if nothing is."""
    question, chosen = answer.posed.question, answer.verdict.chosen
    if question.kind is not Kind.CHOICES:
        return ""
    found = sum(question.options[answer.posed.shown[place]].right for place in chosen)
    if not found:
        return ""
    there = sum(option.right for option in question.options)
    return f": you chose {found} of the {there} right ones" + (
        f", and {len(chosen) - found} wrong" * (len(chosen) > found)
    )


def _belief(answer: Answer) -> str:
    """Why a wrong answer is wrong; "" where that is not known, or stands beside each of several options."""
    return "" if answer.posed.question.kind is Kind.CHOICES else next(iter(answer.verdict.whys), "")


def _right_answer(answer: Answer) -> RenderableType:
    posed, lines = answer.posed, answer.posed.question.lines
    given, right = answered(posed, answer.given), expected(posed)
    differs = given != right and not (answer.right and posed.question.kind is Kind.OUTPUT)  # its form does not count
    yours = [(Text("yours", style="quiet"), Text(plain(given)))] if given and differs else []
    rows = columns([*yours, (Text("right", style="good"), Text(plain(right)))])
    order = [(Text(f" {posed.shown.index(i) + 1}", style="key"), prose(line.text)) for i, line in enumerate(lines)]
    return Group(rows, *([columns(order)] if order else []))


def remaining(left: timedelta) -> Text:
    """Draw the time that is left, in whole seconds; the last second shows as 1, since at 0 the time is over."""
    seconds = math.ceil(left.total_seconds())
    minutes = f"{seconds // 60}:{seconds % 60:02}" if seconds >= 60 else f"{seconds} s"
    return Text(f"{minutes} left", style="warn" if seconds <= _HURRY else "quiet")


def until_change(left: timedelta) -> float:
    """The seconds until the clock shows another number, or is over."""
    seconds = left.total_seconds()
    return max(0.01, seconds - (math.ceil(seconds) - 1))


# The script of a `spot` question on the screen: numbered lines, the chosen one marked, and its verdict.


def _script_view(question: Question, chosen: int | None = None) -> RenderableType:
    """Draw the script; `chosen` is the place of a line, from 0."""
    lines = enumerate(_lines(question.code))
    return columns((_number(place, ">" if place == chosen else " "), line) for place, line in lines)


def _judged_lines(question: Question, verdict: Verdict, *, explained: bool) -> list[RenderableType]:
    """Draw the chosen line, the line at fault, and what should stand there.

    Nothing is added to the chosen line if it was `explained`, otherwise where to look.
    """
    at_fault, lines = fault_line(question), script_lines(question)
    rows: list[tuple[Text, RenderableType]] = []
    for place in verdict.chosen:
        if place != at_fault:
            look = f"The fault is in another line. {next(iter(question.hints), '')}".rstrip()
            shown = Group(_code(lines[place]), *([] if explained else [prose(look, "quiet")]))
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
