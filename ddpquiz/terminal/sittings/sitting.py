"""What all sittings share: what they need, a screen with demos, proofs and flags, and sittings by lines."""

import contextlib
import sys
from abc import abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Generic, TypeVar

from rich.console import Console, Group, RenderableType

from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import Concept, DemoLink, Question
from ddpquiz.curriculum.posed_question import Posed
from ddpquiz.errors import UserError
from ddpquiz.learning.log_rows import Receipt
from ddpquiz.learning.progress import Progress
from ddpquiz.terminal.kit.key_screen import Hotkey, KeyScreen, key_line, leave_to, note_lines, prefixed
from ddpquiz.terminal.kit.layout import show
from ddpquiz.terminal.kit.screen import is_interactive
from ddpquiz.terminal.kit.style import console
from ddpquiz.terminal.sittings.rank_runner import DEFAULT_OPTIONS, DemoOptions, DemoOutcome, RankRunner

_T = TypeVar("_T")
_UNFLAG = Hotkey("f", "unflag", "remove your flag from this item")
FLAG = Hotkey("f", "flag", "mark this item as wrong or unclear; press again to undo")
DEMO = Hotkey("d", "demo", "run this concept's demo on real ranks, and come back here")
PROOF = Hotkey("p", "proof", "run the proof of the answer, and come back here")
LOOK = Hotkey("/", "look up", "search for a concept or an item, read it, and come back here")
SOURCE = Hotkey("v", "source", "show the source of this item")


@dataclass
class SittingContext:
    """What every sitting needs: the content, the progress, the clock, and what it starts.

    `open_lab` opens a lab, by its name, at a place in a guided path; `ranks` runs demos and proofs. `place` is where a
    sitting stands in a guided path, such as `4 of 6: cards`; "" elsewhere. `back_to` is the screen to which `q` leads,
    `home`, `lessons` or `stages`; "" where it ends the program. `open_lessons` are the screens of lessons that are left
    in the middle of a step, by concept.
    """

    catalog: Catalog
    progress: Progress
    clock: Callable[[], datetime]
    open_lab: Callable[[str, str], None]
    ranks: RankRunner
    place: str = ""
    back_to: str = ""
    open_lessons: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def concepts(self) -> Mapping[str, Concept]:
        """The concepts by name."""
        return {concept.id: concept for concept in self.catalog.concepts}

    def questions(self, keys: Collection[str]) -> list[Question]:
        """The questions with these keys, in the order of the content."""
        return [question for question in self.catalog.questions() if question.key in keys]


def command_words(*first: str, **options: str | int | None) -> str:
    """The words of a command line; options that are None or False are left out, True is an option alone."""
    given = {name: value for name, value in options.items() if value is not None and value is not False}
    return " ".join((*first, *(name if value is True else f"{name} {value}" for name, value in given.items())))


class SittingScreen(KeyScreen):
    """The screen of a sitting, controlled by keys or `by_lines`."""

    def __init__(self, context: SittingContext) -> None:
        super().__init__()
        self.context = context
        self.by_lines: ByLines[Any] = ByLines(self)

    @property
    def leave(self) -> Hotkey:
        """The key that leaves, named after where it leads."""
        return leave_to(self.context.back_to)

    @property
    def inside(self) -> bool:
        return bool(self.context.back_to)

    @property
    @abstractmethod
    def over(self) -> bool:
        """Whether the sitting is over."""

    @abstractmethod
    def summary(self) -> RenderableType:
        """Draw the result of the sitting."""

    def opened(self) -> None:
        """Import torch while the learner reads."""
        self.context.ranks.warm()

    def demo_of(self, concept: str | None) -> DemoLink | None:
        found = self.context.concepts.get(concept or "")
        return found.demos[0] if found and found.demos else None

    def run_demo(self, link: DemoLink | None, how: DemoOptions = DEFAULT_OPTIONS) -> DemoOutcome | None:
        """Run a demo, and note what came of the prediction; None if the learner saw no run."""
        if link is None:
            self.note = "This concept has no demo."
            return None
        outcome = self._leave(lambda: self.context.ranks.demo(link, how))
        self.note = outcome.remark if outcome else self.note
        return outcome

    def run_proof(self, posed: Posed) -> None:
        self._leave(lambda: self.context.ranks.prove(posed))

    def look_up(self) -> None:
        from ddpquiz.terminal.sittings.lookup import SearchScreen  # no first screen waits for it

        self._leave(lambda: SearchScreen(self.context.catalog).show(console()))

    def flag(self, item: str) -> None:
        now = self.context.clock()
        if receipts := self._flags.pop(item, []):
            for receipt in receipts:
                self.context.progress.undo(receipt, now)
            self.note = "flag removed"
        else:
            self._flags[item] = [self.context.progress.flag(item, "", now)]
            self.note = "flagged as wrong or unclear · f removes the flag"

    def is_flagged(self, item: str) -> bool:
        return item in self._flags

    def flag_key(self, item: str) -> Hotkey:
        return _UNFLAG if self.is_flagged(item) else FLAG

    @cached_property
    def _flags(self) -> dict[str, list[Receipt]]:
        flags: dict[str, list[Receipt]] = {}
        for row in self.context.progress.entries("flag"):
            flags.setdefault(row.item, []).append(row.receipt)
        return flags

    def show_source(self, key: str) -> None:
        source = self.context.catalog.sources.get(key)
        self.note = source.line if source else key

    def _leave(self, run: Callable[[], _T]) -> _T | None:
        """Run a function that uses the whole terminal, and return its result; a failure becomes the note."""
        try:
            with self._away() if self._away else contextlib.nullcontext():
                return run()
        except UserError as error:
            self.note = str(error)
        except (KeyboardInterrupt, EOFError):
            self.note = "stopped"
        except SystemExit as end:
            if isinstance(end.code, int) and end.code > 128:  # a signal ended the program
                raise
            self.note = "it failed"
        return None


_Screen = TypeVar("_Screen", bound=SittingScreen)


class ByLines(Generic[_Screen]):
    """The lines that control a sitting in place of keys, in a pipe or on a terminal that cannot be painted."""

    def __init__(self, screen: _Screen) -> None:
        self.screen = screen

    @property
    def scene(self) -> Hashable:
        """What is asked now; when it changes, `new` is printed."""
        return self.screen.scene

    def new(self) -> RenderableType:
        """Draw what is new since the last line."""
        return self.screen.body()

    def hotkeys(self) -> list[Hotkey]:
        """What a line may be now."""
        return [*self.screen.keys(), *prefixed(self.screen.commands(), ":")]

    def obey(self, line: str) -> None:
        """Obey a line: the name of a key."""
        self.screen.handle_key(line)

    def goes_on(self) -> bool:
        """Go on without a line if no line is needed here; return whether it did."""
        return False

    def read(self, console: Console, lines: Iterable[str], *, asked: bool = False) -> None:
        """Obey lines until they or the sitting end, and print what is new.

        With `asked`, the keys are printed before each line, for a person.
        """
        screen, scene = self.screen, None
        commands = iter(lines)
        while not screen.left and not screen.over:
            if self.scene != scene:
                show(console, self.new())
            if self.goes_on():
                continue
            scene = self.scene
            if asked:
                console.print(key_line(self.hotkeys(), console.width))
                console.print("> ", end="")
            line = next(commands, None)
            if line is None:
                break
            self.obey(line.strip())
            if screen.helping:
                show(console, screen.shown())
                screen.helping = False
            if screen.note:
                show(console, Group(*note_lines(screen.note)))


def run_sitting(sitting: SittingScreen, console: Console, *, lines: bool = False) -> None:
    """Show a sitting, or read its commands as lines: in a pipe, and on a terminal with `lines`.

    Its summary stays in the scrollback, but not that of a sitting inside another screen, which has its own. Raises
    KeyboardInterrupt, after the summary, if the learner interrupted the sitting.
    """
    interrupt = None
    try:
        if is_interactive() and not lines:
            sitting.show(console)
        else:
            sitting.by_lines.read(console, sys.stdin, asked=sys.stdin.isatty())
    except KeyboardInterrupt as pressed:
        interrupt = pressed
    if not (sitting.context.place or sitting.context.back_to):
        show(console, sitting.summary())
    if interrupt:
        raise interrupt
