"""A screen that keys control, until the user leaves it.

A screen supplies its body and its keys, and handles each key; the loop that reads keys and paints, the line at the
bottom that lists the keys, and the page that explains them are the same for all.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from rich.console import Console, Group, RenderableType
from rich.constrain import Constrain
from rich.text import Text

from ddpquiz.terminal.kit.keys import URGENT, Keys
from ddpquiz.terminal.kit.layout import MEASURE, columns
from ddpquiz.terminal.kit.screen import Screen
from ddpquiz.terminal.kit.style import plain

_NAMES = {"←": "left", "→": "right", "↑": "up", "↓": "down", "esc": "escape"}  # of keys, by what a screen calls them


@dataclass(frozen=True, slots=True)
class Hotkey:
    """A key that works now: its name, and what it does, in a word or two (`does`) and in a sentence (`more`).

    `also` are keys that do the same and are not named in the line of keys.
    """

    key: str
    does: str
    more: str = ""
    also: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The keys as `Keys.get` names them; `1-12` are digits, which are typed one after the other."""
        if numbers := re.fullmatch(r"(\d+)-(\d+)", self.key):
            first, last = int(numbers[1]), int(numbers[2])
            named = [str(digit) for digit in range(10) if last > 9 or first <= digit <= last]
        else:
            named = [self.key] if self.key == "/" else re.split(r"[ /]", self.key)
        return frozenset((*(_NAMES.get(name, name) for name in named), *self.also))


HELP = Hotkey("?", "help", "the keys that work now")
BACK = Hotkey("esc", "back", "close this page (or q, backspace, or the key that opened it)")
GOES_BACK = ("escape", "q", "backspace")  # from any page, with the key that opened it
QUIT = Hotkey("q", "quit", "leave; everything is saved already")
_SCREENS = {"home": "the home screen", "lessons": "the list of lessons", "stages": "the stages"}
_GO_ON = ("space", "enter")
_MORE = Hotkey("space", "next page", "show the next screenful")
_MISSING = {  # what a key that means the same on all screens would need here
    "u": "There is nothing to undo here",
    "d": "There is no demo here",
    "p": "There is no proof here",
    "l": "There is no lesson here",
    "h": "There is no hint here",
    "e": "There is nothing to edit here",
    "r": "There is nothing to run again here",
    "/": "A search opens from a card, a lesson or the home screen",
}
_ALWAYS = (HELP.key, QUIT.key)  # `?` lists all other keys, and `q` leaves any screen


def leave_to(screen: str, then: str = "everything is saved already (or esc)") -> Hotkey:
    """The key `q` of a screen that was opened from another one; without one, it ends the program."""
    return Hotkey(QUIT.key, screen, f"go back to {_SCREENS[screen]}; {then}") if screen else QUIT


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
        line.append("esc then: " if number == len(keys) else "")
        line.append(key.key, style="key").append(f" {key.does}")
    return line


def note_lines(note: str) -> list[RenderableType]:
    """Draw the note about the last key, if there is one."""
    return [Text(plain(note), style="warn")] if note else []


def help_page(keys: Iterable[Hotkey]) -> RenderableType:
    """Draw the page of help: what each key does."""
    return Group(
        Text("Keys of this screen", style="head"),
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
        self.more = False  # more of the page is below the screen
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
        """True if a page of text is shown, which nobody leaves with enter before its end was seen."""
        return False

    @property
    def turning(self) -> tuple[str, ...]:
        """The keys that show the next screenful while there is one, and are pressed as usual at the end."""
        if self.reading or self.helping:
            return _GO_ON
        return () if self.writing else ("space",)

    @property
    def inside(self) -> bool:
        """True if the screen was opened from another one, to which escape leads back."""
        return False

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
            return key_line(self.named_keys([BACK]), width)
        keys = key_line(self.named_keys(self.keys()), width, self.commands())
        return Group(*note_lines(self.note), *self.above_keys(), keys)

    def named_keys(self, keys: list[Hotkey]) -> list[Hotkey]:
        """These keys as the line of keys names them: while there is more below, a key that turns the page says so."""
        if not self.more:
            return keys
        turned = [replace(key, does=_MORE.does) if key.key in self.turning else key for key in keys]
        return turned if turned != keys or not (self.reading or self.helping) else [_MORE, *keys]

    def handle_key(self, key: str) -> None:
        if self.helping:
            self.helping = key not in (HELP.key, "enter", *GOES_BACK)
            return
        self.note = ""
        if key == HELP.key:
            self.helping = True
            return
        before, offered = self.scene, self.all_keys()
        self.press(_own_name(key, offered))
        if self.left or self.note or self.scene != before:
            return
        if key != "escape":
            self.note = self.missing(key, offered)
        elif self.inside:
            self.press(QUIT.key)
        else:
            more = next((each.more or each.does for each in offered if each.key == QUIT.key), QUIT.more)
            self.note = f"Press q to {more}."

    def missing(self, key: str, offered: Collection[Hotkey]) -> str:
        """What to press instead of a key that is not offered; "" for an offered key, and for one that no screen has."""
        if any(key in each.names for each in offered) or not (len(key) == 1 or key in _GO_ON):
            return ""
        if key in _GO_ON:
            for other in offered:
                if any(name in _GO_ON for name in other.names):
                    return f"Press {other.key} ({other.does}) instead."
            for one in offered:
                if one.key[0].isdecimal() and "-" in one.key and one.does in ("answer", "choose", "tick"):
                    return f"Press a key from {one.key.replace('-', ' to ')} to {one.does}."
            if self.reading:
                return "This is the end of the page; press esc to go back."
        name = key.capitalize() if key in _GO_ON else key
        return f"{_MISSING.get(key, f'{name} does nothing here')}; {HELP.key} lists the keys."

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
        def foot(more: bool) -> RenderableType:
            self.more = more
            return self.foot(screen.console.width)

        screen.paint(
            Constrain(self.shown(), MEASURE), foot, turns=bool(self.turning), arrows=bool(self._scrolling("up"))
        )

    def show(self, console: Console) -> None:
        """Run the loop on a screen of its own."""
        with Screen(console) as screen, Keys(away=screen.suspended) as keys:
            self.loop(screen, keys)

    def loop(self, screen: Screen, keys: Keys) -> None:
        self._away = keys.suspended
        scene: tuple[Hashable, ...] = ()
        added, focus = self.added, self.focus
        place = screen.place  # of the body while the page of help is shown
        while not self.closed:
            now = (self.scene, self.helping)
            if now != scene:
                place = _show_scene(screen, place, is_back=now == (*scene[:1], False))
                keys.discard(self.early)  # nobody can have answered what was not painted yet
            else:
                self._follow(screen, added, focus)
            added, focus = self.added, self.focus
            if now != scene or not keys.waiting():  # one frame for all keys that came at once
                self.paint(screen)
            if not scene:
                self.opened()
            scene, key = now, self._waited(keys, now[0])
            if key in self.turning and not screen.at_end:
                key = "pagedown"
            if key == "ctrl+c":
                self.interrupt()
            elif self.tick():
                continue
            elif key in self.leaving:
                self.press(QUIT.key)
            elif key not in ("", "resize") and not self._scrolled(screen, key):
                self.handle_key(key)
        self._away = None

    def _waited(self, keys: Keys, scene: Hashable) -> str:
        """Wait for a key; "" if none came. The note goes with its scene: the key that it is about may work now."""
        note = self.note
        key = self.wait(keys) or ""
        if note and not key and self.note == note and self.scene != scene:
            self.note = ""
        return key

    def _scrolled(self, screen: Screen, key: str) -> bool:
        """Scroll by a key, and return whether it scrolls; the note was about the key before."""
        scrolled = screen.scroll(self._scrolling(key))
        self.note = "" if scrolled else self.note
        return scrolled

    def _follow(self, screen: Screen, added: Hashable, focus: Hashable) -> None:
        """Scroll to what was added or marked since the last frame."""
        if self.added != added:
            screen.to_end()
        elif self.focus != focus:
            screen.to_focus()

    def _scrolling(self, key: str) -> str:
        """The key as it scrolls, otherwise ""."""
        return key


def _show_scene(screen: Screen, place: tuple[int, bool], *, is_back: bool) -> tuple[int, bool]:
    """Show a scene from its top, or at its place if its help was closed; return the place to come back to."""
    if is_back:
        screen.to_place(place)
        return place
    before = screen.place
    screen.to_top()
    return before


def _own_name(key: str, offered: Iterable[Hotkey]) -> str:
    """The key that stands in the line of keys for one that does the same."""
    names = {name: _NAMES.get(each.key, each.key) for each in offered for name in each.also if each.key in each.names}
    return names.get(key, key)
