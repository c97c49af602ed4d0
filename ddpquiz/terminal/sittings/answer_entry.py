"""An answer as it is typed, one key at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ddpquiz.curriculum.concept import Kind
from ddpquiz.terminal.kit.hotkeys import Hotkey
from ddpquiz.terminal.kit.key_names import typed

if TYPE_CHECKING:
    from ddpquiz.curriculum.concept import Question
    from ddpquiz.learning.quiz import Answer

SUBMIT = Hotkey("enter", "answer", "give what you chose or typed as your answer (ctrl+u clears it)")
ESCAPE = "escape"
COMMANDS = frozenset("hxsdufq?")  # the keys of a question besides those that answer it


@dataclass(frozen=True, slots=True)
class Entry:
    """What was typed so far; `given` once it is meant as the answer.

    A number, an order and an output are typed: every character is text. Escape makes the next key a command
    (`escaped`), and only that one.
    """

    text: str = ""
    escaped: bool = False
    given: bool = False

    @classmethod
    def of(cls, answer: Answer | None) -> Entry:
        """Return the entry that gives an answer once more; an option that was chosen with one key is not in it."""
        return cls(answer.given) if answer and answer.posed.question.kind is not Kind.CHOICE else cls()

    def key(self, key: str, question: Question) -> Entry:
        """Return the entry after a key; one that means nothing here changes nothing."""
        if question.kind is Kind.CHOICE:
            return Entry(key, given=True) if _is_place(key, question) else self
        match key:
            case "enter":
                return replace(self, given=True)
            case "backspace":
                return replace(self, text=self.text[:-1])
            case "ctrl+u":
                return replace(self, text="")
            case _ if question.kind is not Kind.CHOICES:
                return replace(self, text=self.text + typed(key))
            case _ if _is_place(key, question):
                return replace(self, text="".join(sorted(set(self.text) ^ {key})))
        return self

    def keys(self, question: Question) -> list[Hotkey]:
        """Return the keys that answer a question."""
        count = len(question.options or question.lines)
        match question.kind:
            case Kind.CHOICE:
                return [Hotkey(f"1-{count}", "answer")]
            case Kind.CHOICES:
                return [Hotkey(f"1-{count}", "choose", "choose an option, or take it back"), SUBMIT]
            case _:
                return [SUBMIT]


def is_typed(question: Question) -> bool:
    """Whether its answer is typed, so that letters are text and commands come after escape."""
    return question.kind in (Kind.NUMBER, Kind.ORDER, Kind.OUTPUT)


def is_command(text: str, question: Question) -> bool:
    """Whether what was typed as an answer is a key that was meant as a command."""
    return is_typed(question) and text.strip() in COMMANDS and text.strip() != question.answer


def _is_place(key: str, question: Question) -> bool:
    return key.isdecimal() and 1 <= int(key) <= len(question.options)
