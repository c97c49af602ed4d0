"""Answers that are entered key by key: chosen by digits, or typed with a cursor."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

from ddpquiz.curriculum.concept import Kind, Question
from ddpquiz.curriculum.posed_question import Posed
from ddpquiz.curriculum.spot import candidates
from ddpquiz.learning.graded_answer import Answer
from ddpquiz.learning.judge import chosen_line
from ddpquiz.terminal.kit.hotkeys import Hotkey
from ddpquiz.terminal.kit.key_names import typed
from ddpquiz.terminal.kit.text_area import TextArea
from ddpquiz.terminal.sittings.typing_screen import TypingScreen

SUBMIT = Hotkey("enter", "answer", "submit what you chose or typed (← → home end move in it, ctrl+u clears it)")
CHOOSE_LINE = Hotkey("↑ ↓", "choose", "mark the line above or below; or type its number")
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
        """Return the entry that repeats an answer; it is empty if a single key gives the answer."""
        repeats = answer and answer.posed.question.kind is not Kind.CHOICE
        return cls(TextArea().insert(answer.given)) if answer and repeats else cls()

    @property
    def text(self) -> str:
        return self.area.text

    def key(self, key: str, question: Question) -> Entry:
        """Return the entry after a key; a key that means nothing here changes nothing."""
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
        """Return the number of a line of a script as it is after a key, or None if the key does not change it."""
        now, lines = chosen_line(question, self.text), candidates(question)
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
                return [Hotkey(f"1-{count}", "choose", "choose an option; the same key again undoes that"), SUBMIT]
            case Kind.SPOT:
                return [CHOOSE_LINE, Hotkey("enter", "answer", "the marked line is your answer")]
            case _:
                return [SUBMIT]


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

    def enter(self, key: str) -> None:
        posed = self.answering
        if posed is None:
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

    @property
    def text(self) -> str:
        return self.entry.area.text

    def changes_text(self, key: str) -> bool:
        """Return whether a key changes what was entered: `↑` and `↓` mark a line of a script."""
        return self.answering is not None and self.entry.key(key, self.answering.question) != self.entry


def is_typed(question: Question) -> bool:
    """Return whether the answer to a question is typed, so that letters are text."""
    return question.kind in (Kind.NUMBER, Kind.ORDER, Kind.OUTPUT)


def is_command(text: str, question: Question) -> bool:
    """Return whether the text of an answer was probably meant as a command."""
    return is_typed(question) and text.strip() in COMMANDS and text.strip() != question.answer


def _is_place(key: str, question: Question) -> bool:
    return key.isdecimal() and 1 <= int(key) <= len(question.options)
