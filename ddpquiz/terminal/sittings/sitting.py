"""What study and quiz share at the keyboard: the loop of a sitting, the line of keys, and leaving for a demo."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from rich.console import Group
from rich.constrain import Constrain
from rich.text import Text

from ddpquiz.errors import UserError
from ddpquiz.terminal.kit.hotkeys import FLAG, HELP, QUIT, Hotkey, help_page, key_line, prefixed
from ddpquiz.terminal.kit.layout import MEASURE, show
from ddpquiz.terminal.kit.style import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping
    from contextlib import AbstractContextManager
    from datetime import datetime

    from rich.console import Console, RenderableType

    from ddpquiz.curriculum.concept import Concept, DemoLink, Source
    from ddpquiz.curriculum.posed import Posed
    from ddpquiz.learning.log_rows import Receipt
    from ddpquiz.learning.progress import Progress

LEAVING = ("ctrl+d", "eof")
UNFLAG = Hotkey("f", "unflag", "take back that something is wrong with this item")


class Actions(Protocol):
    """What a sitting can start; each leaves the terminal usable and may raise UserError."""

    def warm(self) -> None:
        """Get ready for demos while the learner reads."""

    def demo(self, link: DemoLink) -> object:
        """Run a demo, and return when the learner has seen it."""

    def prove(self, posed: Posed) -> object:
        """Run the proof of a question, and return when the learner has read what was observed."""


@dataclass
class Desk:
    """What lies around a sitting: the log, the concepts, what can be run, and the clock."""

    progress: Progress
    concepts: Mapping[str, Concept]
    sources: Mapping[str, Source]
    actions: Actions
    clock: Callable[[], datetime]


class SittingScreen(ABC):
    """A learner at a desk. A sitting draws itself as `body` and `keys`, and takes a key in `press`."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.note = ""  # said once, about the last key
        self.helping = False
        self.left = False
        self._away: Callable[[], AbstractContextManager[None]] | None = None

    @property
    @abstractmethod
    def scene(self) -> Hashable:
        """What is asked now: when it changes, keys typed before it was painted do not count."""

    @property
    def early(self) -> tuple[str, ...]:
        """The keys that count even when they were typed before a scene was painted."""
        return ("ctrl+c", "ctrl+z", QUIT.key, "eof")

    @property
    def leaving(self) -> tuple[str, ...]:
        """The keys that leave besides q."""
        return LEAVING

    @property
    @abstractmethod
    def over(self) -> bool:
        """Whether nothing is left to ask."""

    @property
    def reading(self) -> bool:
        """Whether a page is read, in which space goes on to the next screenful."""
        return False

    @property
    def added(self) -> Hashable:
        """What was added below what is asked: when that changes, it is scrolled to."""
        return None

    def patience(self) -> float | None:
        """Return after how many seconds the screen is painted again without a key; None: never."""
        return None

    def tick(self) -> bool:
        """Do what the time that went by asks for; return whether something else is asked now."""
        return False

    @abstractmethod
    def body(self) -> RenderableType:
        """Draw what is asked now."""

    @abstractmethod
    def summary(self) -> RenderableType:
        """Draw what the sitting came to."""

    def above_keys(self) -> list[RenderableType]:
        """Draw lines that stay above the line of keys."""
        return []

    @abstractmethod
    def keys(self) -> list[Hotkey]:
        """Return the keys that work now, the most needed first."""

    def commands(self) -> list[Hotkey]:
        """Return the keys that work after escape, because letters are text now."""
        return []

    def all_keys(self) -> list[Hotkey]:
        """Return the keys that work now, with those that stand above the line of keys."""
        return [*self.keys(), *prefixed(self.commands(), "esc ")]

    def line_keys(self) -> list[Hotkey]:
        """Return the keys that work now where whole lines are read."""
        return [*self.keys(), *prefixed(self.commands(), ":")]

    @abstractmethod
    def press(self, key: str) -> None:
        """Take a key."""

    def shown(self) -> RenderableType:
        """Draw the body, or what the keys do when that was asked for."""
        return help_page(self.all_keys()) if self.helping else self.body()

    def foot(self, width: int) -> RenderableType:
        """Draw what stays at the bottom."""
        if self.helping:
            return key_line([Hotkey("any key", "goes back")], width)
        return Group(*self.above_keys(), key_line(self.keys(), width, self.commands()))

    def handle_key(self, key: str) -> None:
        """Take a key, whatever is on screen."""
        if self.helping:
            self.helping = False
            return
        self.note = ""
        if key == HELP.key:
            self.helping = True
        else:
            self.press(key)

    def demo_of(self, concept: str | None) -> DemoLink | None:
        """Return the demo that `d` runs for a concept."""
        found = self.desk.concepts.get(concept or "")
        return found.demos[0] if found and found.demos else None

    def run_demo(self, concept: str | None) -> None:
        """Run the demo of a concept, and come back."""
        link = self.demo_of(concept)
        if link:
            self._leave(lambda: self.desk.actions.demo(link))
        else:
            self.note = "This concept has no demo."

    def run_proof(self, posed: Posed) -> None:
        """Run a proof, and come back."""
        self._leave(lambda: self.desk.actions.prove(posed))

    def flag(self, item: str) -> None:
        """Note that something is wrong with an item, or take that back."""
        now = self.desk.clock()
        if receipts := self._flags.pop(item, []):
            for receipt in receipts:
                self.desk.progress.undo(receipt, now)
            self.note = "the flag is taken back"
        else:
            self._flags[item] = [self.desk.progress.flag(item, "", now)]
            self.note = "flagged as wrong or unclear · f takes it back"

    def is_flagged(self, item: str) -> bool:
        """Return whether the learner noted that something is wrong with an item, now or in an earlier sitting."""
        return item in self._flags

    def flag_key(self, item: str) -> Hotkey:
        """Return the key that notes that something is wrong with an item, or takes that back."""
        return UNFLAG if self.is_flagged(item) else FLAG

    @cached_property
    def _flags(self) -> dict[str, list[Receipt]]:
        """The flags that stand, by item."""
        flags: dict[str, list[Receipt]] = {}
        for row in self.desk.progress.entries("flag"):
            flags.setdefault(row.item, []).append(row.receipt)
        return flags

    def tell_source(self, key: str) -> None:
        """Say where something was read."""
        source = self.desk.sources.get(key)
        parts = (source.title, source.authors, source.year, source.address) if source else (key,)
        self.note = " · ".join(part for part in parts if part)

    def sit(self, console: Console) -> None:
        """Let the learner work on the whole screen until they leave; ctrl+c raises KeyboardInterrupt."""
        from ddpquiz.terminal.kit.keys import Keys
        from ddpquiz.terminal.kit.screen import Screen

        scene: Hashable = None
        added = self.added
        with Screen(console) as screen, Keys(away=screen.suspended) as keys:
            self._away = keys.suspended
            while not self.left:
                new = (self.scene, self.helping)
                if new != scene:
                    screen.to_top()
                    keys.drop(self.early)  # nobody can have answered what was not painted yet
                elif self.added != added:
                    screen.to_end()
                added = self.added
                if new != scene or not keys.waiting():  # one frame for all keys that came at once
                    screen.paint(Constrain(self.shown(), MEASURE), self.foot(console.width))
                if scene is None:
                    self.desk.actions.warm()
                scene = new
                key = keys.get(self.patience()) or ""
                if key == "ctrl+c":
                    raise KeyboardInterrupt
                if self.tick():
                    continue  # the key was meant for what is gone
                if key in self.leaving:
                    self.press(QUIT.key)
                elif key not in ("", "resize") and not screen.scroll(self._scrolling(key)):
                    self.handle_key(key)
        self._away = None

    def read(self, console: Console, lines: Iterable[str], *, asked: bool = False) -> None:
        """Let lines do what keys do, for pipes and terminals that cannot be painted; what is new is printed.

        `asked` names the keys each time, for a person. The sitting ends with the lines.
        """
        scene: Hashable = None
        commands = iter(lines)
        while not self.left and not self.over:
            if self.scene != scene:
                show(console, self.spoken())
            if self.goes_on():
                continue
            scene = self.scene
            if asked:
                console.print(key_line(self.line_keys(), console.width))
                console.print("> ", end="")
            line = next(commands, None)
            if line is None:
                break
            self.handle_line(line.strip())
            if self.helping:
                show(console, self.shown())
                self.helping = False
            if self.note:
                show(console, Group(*note_lines(self.note)))

    def goes_on(self) -> bool:
        """Go on by itself where a terminal that only goes down keeps everything in sight; return whether it did."""
        return False

    def _scrolling(self, key: str) -> str:
        return "pagedown" if key == "space" and self.reading and not self.helping else key

    @abstractmethod
    def spoken(self) -> RenderableType:
        """Draw what is new, for a terminal that only goes down."""

    @abstractmethod
    def handle_line(self, line: str) -> None:
        """Take a line."""

    def _leave(self, run: Callable[[], object]) -> None:
        """Run something that has the terminal to itself; what goes wrong there is told, and the sitting goes on."""
        try:
            if self._away is None:
                run()
            else:
                with self._away():
                    run()
        except UserError as error:
            self.note = str(error)
        except (KeyboardInterrupt, EOFError):
            self.note = "stopped"
        except SystemExit as end:
            if isinstance(end.code, int) and end.code > 128:  # we were told to end
                raise
            self.note = "it did not end well"


def header(*parts: str) -> Text:
    """Draw where the learner is in a sitting."""
    return Text(plain(" · ".join(part for part in parts if part)), style="accent")


def note_lines(note: str) -> list[RenderableType]:
    """Draw what is said about the last key, if anything."""
    return [Text(plain(note), style="warn")] if note else []
