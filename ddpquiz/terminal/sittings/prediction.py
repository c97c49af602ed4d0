"""A prediction: a question about a demo is asked before the demo runs, and the run says whether it held."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from ddpquiz.learning.judge import expected, judge
from ddpquiz.terminal.kit.hotkeys import HELP, LEAVE, Hotkey, help_page, key_line, prefixed
from ddpquiz.terminal.kit.style import plain, prose
from ddpquiz.terminal.sittings import question_view
from ddpquiz.terminal.sittings.answer_entry import ESCAPE, Entry, is_command, is_typed

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from ddpquiz.curriculum.posed import Posed
    from ddpquiz.learning.judge import Verdict

NONE = Hotkey("s", "no prediction", "run the demo without one (enter with no answer does it too)")
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
    from ddpquiz.terminal.kit.keys import Keys
    from ddpquiz.terminal.kit.screen import Screen

    asking = PredictionScreen(posed, demo)
    screen = Screen(console)
    with screen, Keys(away=screen.suspended) as keys:
        screen.paint(asking.body(), asking.foot(console.width))
        keys.drop(keep=("ctrl+c", "eof"))
        while not asking.done:
            screen.paint(asking.body(), asking.foot(console.width))
            key = keys.get() or ""
            if key in ("ctrl+c", "ctrl+d", "eof"):
                raise KeyboardInterrupt
            if key != "resize" and not screen.scroll(key):
                asking.handle_key(key)
    return asking.made


class PredictionScreen:
    """A prediction that is asked for: it takes keys until it is `done`, by the rules of a quiz."""

    def __init__(self, posed: Posed, demo: str) -> None:
        self.made: Made | None = None
        self.done = False
        self._posed = posed
        self._demo = demo
        self._entry = Entry()
        self._unclear = ""
        self._helping = False

    def handle_key(self, key: str) -> None:
        """Take a key; Left when it means that no run is wanted."""
        typed, escaped = is_typed(self._posed.question), self._entry.escaped
        self._entry = replace(self._entry, escaped=typed and not escaped and not self._helping and key == ESCAPE)
        if self._helping:
            self._helping = False
        elif self._entry.escaped:
            return
        elif escaped or (not typed and (len(key) == 1 or key == ESCAPE)):
            self._command(key)
        elif key == "enter" and not self._entry.text:
            self.done = True
        else:
            self._type(key)

    def body(self) -> RenderableType:
        """Draw what is asked, or what the keys do when that was asked for."""
        if self._helping:
            return help_page([*self._keys(), *prefixed(self._after_escape(), "esc ")])
        head = Text.assemble(("Predict", "accent"), f" · demo {plain(self._demo)} · {self._posed.question.concept}")
        counts = Text("It counts as an answer in a test does; a wrong one makes a card due.", style="quiet")
        return Group(head, counts, Text(), *question_view.asked(self._posed, 0, self._entry.text))

    def foot(self, width: int) -> RenderableType:
        """Draw what was typed so far, and the keys that work now."""
        if self._helping:
            return key_line([Hotkey("any key", "goes back")], width)
        line = key_line(self._keys(), width, self._after_escape())
        note = [Text(plain(self._unclear), style="warn")] if self._unclear else []
        typed = is_typed(self._posed.question)
        return Group(*note, *([question_view.field(self._posed.question, self._entry)] if typed else []), line)

    def _type(self, key: str) -> None:
        self._entry = self._entry.key(key, self._posed.question)
        self._unclear = ""
        if not self._entry.given:
            return
        text = self._entry.text
        if is_command(text, self._posed.question):
            self._entry, self._unclear = Entry(), f"`{text.strip()}` is a key: press esc, then {text.strip()}."
            return
        verdict = judge(self._posed, text)
        self._entry, self._unclear = replace(self._entry, given=False), verdict.unclear
        self.done = not verdict.unclear
        if self.done:
            self.made = Made(predicted(self._posed, text, verdict), verdict)

    def _command(self, key: str) -> None:
        match key:
            case "q" | "escape":
                raise Left
            case "s":
                self.done = True
            case "?":
                self._helping = True
            case _ if not is_typed(self._posed.question):
                self._type(key)

    def _keys(self) -> list[Hotkey]:
        question = self._posed.question
        if not is_typed(question):
            return [*self._entry.keys(question), *_COMMANDS]
        return list(_COMMANDS) if self._entry.escaped else self._entry.keys(question)

    def _after_escape(self) -> list[Hotkey]:
        return list(_COMMANDS) if is_typed(self._posed.question) and not self._entry.escaped else []


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
