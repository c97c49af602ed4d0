"""A prediction: a question about a demo is asked before the demo runs, and the run says whether it held."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from ddpquiz.learning.judge import judge
from ddpquiz.terminal import questions
from ddpquiz.terminal.answering import Entry
from ddpquiz.terminal.hotkeys import Hotkey, key_line
from ddpquiz.terminal.style import plain, prose

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from ddpquiz.curriculum.pose import Posed
    from ddpquiz.learning.judge import Verdict

NONE = Hotkey("s", "no prediction", "run the demo without one")
NONE_OF_TEXT = Hotkey("esc esc", "no prediction")


def ask(posed: Posed, demo: str, console: Console) -> Verdict | None:
    """Ask for a prediction on a screen of its own; return how it would be judged, or None when there is none.

    KeyboardInterrupt when the learner wants to leave altogether.
    """
    from ddpquiz.terminal.keys import Keys
    from ddpquiz.terminal.screen import Screen

    question, entry, unclear = posed.question, Entry(), ""
    screen = Screen(console)
    with screen, Keys(away=screen.suspended) as keys:
        screen.paint(_body(posed, demo, entry, unclear), _foot(posed, entry, console.width))
        keys.drop(keep=("ctrl+c", "eof"))
        while True:
            screen.paint(_body(posed, demo, entry, unclear), _foot(posed, entry, console.width))
            key = keys.get() or ""
            typing = entry.takes_letters(question)
            if key in ("ctrl+c", "ctrl+d", "eof"):
                raise KeyboardInterrupt
            if (key == "escape" and not typing) or (key in ("s", "q") and not typing):
                return None
            if screen.scroll(key):
                continue
            entry = entry.key(key, question)
            if entry.given:
                verdict = judge(posed, entry.text)
                if not verdict.unclear:
                    return verdict
                entry, unclear = replace(entry, given=False), verdict.unclear


def outcome(verdict: Verdict, posed: Posed, *, shown: bool) -> RenderableType:
    """Say whether a prediction held; `shown` is false when the run ended too early to show it."""
    if not shown:
        return Text("The run ended before it could show whether your prediction holds.", style="warn")
    if verdict.right:
        return Text("Your prediction held.", style="good")
    parts: list[RenderableType] = [Text("Your prediction did not hold.", style="bad")]
    parts += [prose(why) for why in verdict.whys]
    steps = [prose(f"{number}. {step}") for number, step in enumerate(posed.question.steps, 1)]
    return Group(*parts, *steps, Text("A card about it is due.", style="quiet"))


def _body(posed: Posed, demo: str, entry: Entry, unclear: str) -> RenderableType:
    head = Text.assemble(("Predict", "accent"), f" · demo {plain(demo)} · {posed.question.concept}")
    note = [Text(), Text(plain(unclear), style="warn")] if unclear else []
    return Group(head, Text(), *questions.asked(posed, 0, entry.text), *note)


def _foot(posed: Posed, entry: Entry, width: int) -> Text:
    leave = NONE_OF_TEXT if entry.takes_letters(posed.question) else NONE
    return key_line([*entry.keys(posed.question), leave], width)
