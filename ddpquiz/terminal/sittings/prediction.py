"""A prediction: a question about a demo is asked before the demo runs, and the run says whether it held."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from ddpquiz.learning.judge import expected, judge
from ddpquiz.terminal.kit.hotkeys import HELP, Hotkey
from ddpquiz.terminal.kit.key_screen import KeyScreen
from ddpquiz.terminal.kit.style import plain, prose
from ddpquiz.terminal.sittings import question_view
from ddpquiz.terminal.sittings.answer_entry import ESCAPE, Entry, is_command, is_typed

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from ddpquiz.curriculum.posed import Posed
    from ddpquiz.learning.judge import Verdict

NONE = Hotkey("s", "no prediction", "run the demo without one (enter with no answer does it too)")
LEAVE = Hotkey("q", "leave", "leave without running the demo (esc does it too)")
_COMMANDS = (NONE, HELP, LEAVE)


class Left(Exception):  # noqa: N818  # nothing is wrong
    """The learner wants no run."""


@dataclass(frozen=True, slots=True)
class Made:
    """A prediction that was made: in words, and how it would be judged."""

    words: str
    verdict: Verdict


def ask(posed: Posed, demo: str, console: Console) -> Made | None:
    """Ask for a prediction on a screen of its own; return it, or None when there is none.

    Left when the learner wants no run after all, KeyboardInterrupt for ctrl+c.
    """
    asking = PredictionScreen(posed, demo)
    asking.show(console)
    return asking.made


class PredictionScreen(KeyScreen):
    """A prediction that is asked for, by the rules of a quiz, until it is made or declined."""

    def __init__(self, posed: Posed, demo: str) -> None:
        super().__init__()
        self.made: Made | None = None
        self._posed = posed
        self._demo = demo
        self._entry = Entry()

    @property
    def early(self) -> tuple[str, ...]:
        """The keys that count even when they were typed for the shell; a `q` was not meant for this screen."""
        return ("ctrl+c", "ctrl+z", "eof")

    def handle_key(self, key: str) -> None:
        """Obey a key; Left when it means that no run is wanted."""
        typed, escaped = is_typed(self._posed.question), self._entry.escaped
        self._entry = replace(self._entry, escaped=typed and not escaped and not self.helping and key == ESCAPE)
        if self._entry.escaped:
            return
        if self.helping or escaped or (not typed and (len(key) == 1 or key == ESCAPE)):
            super().handle_key(key)
        elif key == "enter" and not self._entry.text:
            self.left = True
        else:
            self._type(key)

    def press(self, key: str) -> None:
        """Obey a key that is a command, or the digit of an option."""
        match key:
            case "q" | "escape":
                raise Left
            case "s":
                self.left = True
            case _ if not is_typed(self._posed.question):
                self._type(key)

    def body(self) -> RenderableType:
        """Draw what is asked."""
        head = Text.assemble(("Predict", "accent"), f" · demo {plain(self._demo)} · {self._posed.question.concept}")
        counts = Text("It counts as an answer in a test does; a wrong one makes a card due.", style="quiet")
        return Group(head, counts, Text(), *question_view.asked(self._posed, 0, self._entry.text))

    def above_keys(self) -> list[RenderableType]:
        """Draw a remark about the last key, and what was typed so far."""
        note = [Text(plain(self.note), style="warn")] if self.note else []
        typed = is_typed(self._posed.question)
        return [*note, *([question_view.field(self._posed.question, self._entry)] if typed else [])]

    def keys(self) -> list[Hotkey]:
        """Return the keys that work now."""
        question = self._posed.question
        if not is_typed(question):
            return [*self._entry.keys(question), *_COMMANDS]
        return list(_COMMANDS) if self._entry.escaped else self._entry.keys(question)

    def commands(self) -> list[Hotkey]:
        """Return the keys that work after escape, while an answer is typed."""
        return list(_COMMANDS) if is_typed(self._posed.question) and not self._entry.escaped else []

    def _type(self, key: str) -> None:
        self._entry = self._entry.key(key, self._posed.question)
        self.note = ""
        if not self._entry.given:
            return
        text = self._entry.text
        if is_command(text, self._posed.question):
            self._entry, self.note = Entry(), f"`{text.strip()}` is a key: press esc, then {text.strip()}."
            return
        verdict = judge(self._posed, text)
        self._entry, self.note = replace(self._entry, given=False), verdict.unclear
        self.left = not verdict.unclear
        if self.left:
            self.made = Made(predicted(self._posed, text, verdict), verdict)


def predicted(posed: Posed, given: str, verdict: Verdict) -> str:
    """Return a prediction in words: the texts of what was chosen, or what was typed."""
    shown = posed.question.options
    return "; ".join(shown[posed.shown[place]].text for place in verdict.chosen) if shown else given.strip()


def compared(made: Made, posed: Posed) -> str:
    """Say what was predicted, and what came."""
    if made.verdict.right:
        return f"you predicted {made.words}; and so it was"
    right = [option.text for option in posed.question.options if option.right]
    return f"you predicted {made.words}; it was {'; '.join(right) if right else expected(posed)}"


def outcome(made: Made, posed: Posed, called: str | None, *, shown: bool) -> RenderableType:
    """Say what was predicted and what came, why, and which card is due; `shown` is false when the run ended early."""
    if not shown:
        told = f"You predicted {made.words}. The run ended before it could show whether that holds."
        return prose(told, "warn")
    told = f"Y{compared(made, posed)[1:]}."
    if made.verdict.right:
        return prose(told, "good")
    parts: list[RenderableType] = [prose(told, "bad")]
    parts += [prose(why) for why in made.verdict.whys]
    parts += [prose(f"{number}. {step}") for number, step in enumerate(posed.question.steps, 1)]
    if called:
        concept = posed.question.concept
        parts.append(Text(f"The card {plain(called)} is due: ddpquiz study {plain(concept)}", style="quiet"))
    return Group(*parts)
