"""A screen that keys control, until the user leaves it.

A screen supplies its body and its keys, and handles each key; the loop that reads keys and paints, the line at the
bottom that lists the keys, and the page that explains them are the same for all.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.constrain import Constrain
from rich.text import Text

from ddpquiz.terminal.kit.keys import URGENT, Keys
from ddpquiz.terminal.kit.layout import MEASURE, columns
from ddpquiz.terminal.kit.screen import Screen
from ddpquiz.terminal.kit.style import plain


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
    """The key `q` of a screen that was opened from another one; without one, it ends the program."""
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
    """Keys with a prefix that must be typed before them."""
    return [Hotkey(before + key.key, key.does, key.more) for key in keys]


def _line(keys: list[Hotkey], after_escape: list[Hotkey]) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    for number, key in enumerate([*keys, *after_escape]):
        line.append(" · " if number else "", style="quiet")
        line.append("esc, then " if number == len(keys) else "")
        line.append(key.key, style="key").append(f" {key.does}")
    return line


def note_lines(note: str) -> list[RenderableType]:
    """Draw the note about the last key, if there is one."""
    return [Text(plain(note), style="warn")] if note else []


def help_page(keys: Iterable[Hotkey]) -> RenderableType:
    """Draw the page of help: what each key does."""
    return Group(
        Text("Keys that work here", style="head"),
        Text(),
        columns((Text(key.key, style="key"), Text(key.more or key.does)) for key in keys),
    )


_LEAVING = ("ctrl+d", "eof")


class KeyScreen(ABC):
    """A page that uses the whole screen and all keys until the user leaves it."""

    def __init__(self) -> None:
        self.note = ""  # a remark about the last key, shown until the next one
        self.helping = False  # the page of help is shown
        self.left = False  # the user has left
        self._away: Callable[[], AbstractContextManager[None]] | None = None

    @abstractmethod
    def body(self) -> RenderableType:
        """Draw the part that scrolls."""

    @abstractmethod
    def keys(self) -> list[Hotkey]:
        """The keys that work now, the most important first."""

    @abstractmethod
    def press(self, key: str) -> None:
        """Handle a key."""

    @property
    def scene(self) -> Hashable:
        """What is asked now. When it changes, the body is shown from its top, and keys typed before do not count."""
        return None

    @property
    def added(self) -> Hashable:
        """What was added below the body. When it changes, the body is scrolled to its end."""
        return None

    @property
    def focus(self) -> Hashable:
        """What is marked in the body. When it changes, the body is scrolled to the text with the style FOCUS."""
        return None

    @property
    def early(self) -> tuple[str, ...]:
        """The keys that count even when they were typed before a scene was painted; a letter may be text."""
        return tuple(key for key in URGENT if len(key) > 1 or not self.writing)

    @property
    def writing(self) -> bool:
        """True if letters are text, not commands."""
        return False

    @property
    def leaving(self) -> tuple[str, ...]:
        """The keys that always do the same as `q`."""
        return _LEAVING

    @property
    def reading(self) -> bool:
        """True if a page of text is shown, in which space scrolls to the next screenful."""
        return False

    @property
    def turning(self) -> tuple[str, ...]:
        """The keys that show the next screenful while there is one, and are pressed as usual at the end."""
        return ()

    @property
    def closed(self) -> bool:
        return self.left

    def commands(self) -> list[Hotkey]:
        """The keys that work after escape, while letters are text."""
        return []

    def all_keys(self) -> list[Hotkey]:
        return [*self.keys(), *prefixed(self.commands(), "esc ")]

    def above_keys(self) -> list[RenderableType]:
        """Draw the lines that stay above the line of keys."""
        return []

    def help(self) -> RenderableType:
        return help_page(self.all_keys())

    def shown(self) -> RenderableType:
        return self.help() if self.helping else self.body()

    def foot(self, width: int) -> RenderableType:
        if self.helping:
            return key_line([BACK], width)
        return Group(*self.above_keys(), key_line(self.keys(), width, self.commands()))

    def handle_key(self, key: str) -> None:
        if self.helping:
            self.helping = key not in (HELP.key, *GOES_BACK)
            return
        self.note = ""
        if key == HELP.key:
            self.helping = True
            return
        before = self.scene
        self.press(key)
        if key == "escape" and not (self.left or self.note) and self.scene == before:
            more = next((each.more or each.does for each in self.keys() if each.key == QUIT.key), QUIT.more)
            self.note = f"Press q to {more}."

    def interrupt(self) -> None:
        """Handle ctrl+c: raise KeyboardInterrupt, unless a subclass has something to end first."""
        raise KeyboardInterrupt

    def opened(self) -> None:  # noqa: B027  # most screens prepare nothing
        """Prepare things once the first frame is on the screen."""

    def patience(self) -> float | None:
        """After how many seconds the screen is painted again if no key comes; None means never."""
        return None

    def tick(self) -> bool:
        """Do what is due by now. True discards the key that came meanwhile, because it was meant for the old screen."""
        return False

    def wait(self, keys: Keys) -> str | None:
        """Wait for the next key; None means that a new frame is due."""
        return keys.get(self.patience())

    def paint(self, screen: Screen) -> None:
        screen.paint(Constrain(self.shown(), MEASURE), self.foot(screen.console.width))

    def show(self, console: Console) -> None:
        """Run the loop on a screen of its own."""
        with Screen(console) as screen, Keys(away=screen.suspended) as keys:
            self.loop(screen, keys)

    def loop(self, screen: Screen, keys: Keys) -> None:
        self._away = keys.suspended
        scene: tuple[Hashable, ...] = ()
        added, focus = self.added, self.focus
        while not self.closed:
            now = (self.scene, self.helping)
            if now != scene:
                screen.to_top()
                keys.discard(self.early)  # nobody can have answered what was not painted yet
            else:
                self._follow(screen, added, focus)
            added, focus = self.added, self.focus
            if now != scene or not keys.waiting():  # one frame for all keys that came at once
                self.paint(screen)
            if not scene:
                self.opened()
            scene = now
            key = self.wait(keys) or ""
            if key in self.turning and not screen.at_end:
                key = "pagedown"
            if key == "ctrl+c":
                self.interrupt()
            elif self.tick():
                continue
            elif key in self.leaving:
                self.press(QUIT.key)
            elif key not in ("", "resize") and not screen.scroll(self._scrolling(key)):
                self.handle_key(key)
        self._away = None

    def _follow(self, screen: Screen, added: Hashable, focus: Hashable) -> None:
        """Scroll to what was added or marked since the last frame."""
        if self.added != added:
            screen.to_end()
        elif self.focus != focus:
            screen.to_focus()

    def _scrolling(self, key: str) -> str:
        """The key that scrolls in place of this one: space is the next screenful where text is read."""
        return "pagedown" if key == "space" and (self.reading or self.helping) else key
