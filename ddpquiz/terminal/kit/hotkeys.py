"""The keys that work now: the line at the bottom that lists them, and the page that explains them."""

from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.terminal.kit.layout import columns


@dataclass(frozen=True, slots=True)
class Hotkey:
    """A key that works now: its name, and what it does, in a word or two (`does`) and in a sentence (`more`)."""

    key: str
    does: str
    more: str = ""


HELP = Hotkey("?", "help", "the keys that work now")
BACK = Hotkey("esc", "back", "back from this page (or q, backspace, or the key that opened it)")
GOES_BACK = ("escape", "q", "backspace")  # from any page, with the key that opened it
QUIT = Hotkey("q", "quit", "leave; everything is saved already")
_SCREENS = {"home": "the home screen", "stages": "the stages"}
FROM_ESCAPE = Hotkey("esc", "back", "back to the text (a key that is not listed here also goes back, and is typed)")
_ALWAYS = (HELP.key, QUIT.key)  # `?` lists all other keys, and `q` leaves any screen


def leave_to(screen: str) -> Hotkey:
    """Return the key `q` of a screen that was opened from another one; without one, it ends the program."""
    return Hotkey(QUIT.key, screen, f"go back to {_SCREENS[screen]}; everything is saved already") if screen else QUIT


def key_line(keys: Iterable[Hotkey], width: int, after_escape: Iterable[Hotkey] = ()) -> Text:
    """Draw one line of keys, then those that work after escape: as many as fit, and always `?` and `q`."""
    now, then = list(keys), list(after_escape)
    while len(line := _line(now, then)) > width:
        group = next((group for group in (then, now) if any(key.key not in _ALWAYS for key in group)), None)
        if group is None:
            break
        group.remove([key for key in group if key.key not in _ALWAYS][-1])
    return line


def prefixed(keys: Iterable[Hotkey], before: str) -> list[Hotkey]:
    """Return keys with a prefix that must be typed before them."""
    return [Hotkey(before + key.key, key.does, key.more) for key in keys]


def _line(keys: list[Hotkey], after_escape: list[Hotkey]) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    for number, key in enumerate([*keys, *after_escape]):
        line.append(" · " if number else "", style="quiet")
        line.append("esc, then " if number == len(keys) else "")
        line.append(key.key, style="key").append(f" {key.does}")
    return line


def help_page(keys: Iterable[Hotkey]) -> RenderableType:
    """Draw the page of help: what each key does."""
    return Group(
        Text("Keys that work here", style="head"),
        Text(),
        columns((Text(key.key, style="key"), Text(key.more or key.does)) for key in keys),
    )
