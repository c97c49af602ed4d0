"""An answer as it is typed, one key at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ddpquiz.curriculum.concept import Kind
from ddpquiz.terminal.hotkeys import Hotkey

if TYPE_CHECKING:
    from ddpquiz.curriculum.concept import Question

SUBMIT = Hotkey("enter", "answer", "give what you chose or typed as your answer")
LETTERS = Hotkey("esc", "keys", "let letters be keys instead of text")
_IN_NUMBER = set("0123456789.,eE+-*/() ")


@dataclass(frozen=True, slots=True)
class Entry:
    """What was typed so far; `given` once it is meant as the answer.

    In the answer to an `output` question letters are text, until escape lets them be keys (`letters`).
    """

    text: str = ""
    letters: bool = False
    given: bool = False

    def takes_letters(self, question: Question) -> bool:
        """Whether the next letter is text, and no key."""
        return question.kind is Kind.OUTPUT and not self.letters

    def key(self, key: str, question: Question) -> Entry:
        """Return the entry after a key; one that means nothing here changes nothing."""
        digit = key.isdecimal() and 1 <= int(key) <= len(question.options or question.lines)
        character = " " if key == "space" else key
        match question.kind:
            case Kind.CHOICE:
                return Entry(key, given=True) if digit else self
            case Kind.OUTPUT if key in ("enter", "escape") and (self.letters or key == "escape"):
                return replace(self, letters=not self.letters)
            case _ if key == "enter":
                return replace(self, given=True)
            case _ if key == "backspace":
                return replace(self, text=self.text[:-1])
            case Kind.CHOICES if digit:
                return replace(self, text="".join(sorted(set(self.text) ^ {key})))
            case Kind.ORDER if digit and key not in self.text:
                return replace(self, text=self.text + key)
            case Kind.NUMBER if character in _IN_NUMBER:
                return replace(self, text=self.text + character)
            case Kind.OUTPUT if len(character) == 1 and not self.letters:
                return replace(self, text=self.text + character)
        return self

    def keys(self, question: Question) -> list[Hotkey]:
        """Return the keys that answer a question."""
        count = len(question.options or question.lines)
        match question.kind:
            case Kind.CHOICE:
                return [Hotkey(f"1-{count}", "answer")]
            case Kind.CHOICES:
                return [Hotkey(f"1-{count}", "choose", "choose an option, or take it back"), SUBMIT]
            case Kind.ORDER:
                return [Hotkey(f"1-{count}", "place", "put that line next; backspace takes it back"), SUBMIT]
            case Kind.OUTPUT if self.letters:
                return [Hotkey("enter", "type on", "let letters be text again")]
            case Kind.OUTPUT:
                return [SUBMIT, LETTERS]
            case Kind.NUMBER:
                return [SUBMIT]
