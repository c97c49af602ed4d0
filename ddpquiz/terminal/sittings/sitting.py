"""What sittings share: the context, flags, runs of demos and proofs, and sittings by lines instead of keys."""

import contextlib
from abc import abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.text import Text

from ddpquiz.curriculum.catalog import Source
from ddpquiz.curriculum.concept import Concept, DemoLink, Question
from ddpquiz.curriculum.posed_question import Posed
from ddpquiz.errors import UserError
from ddpquiz.learning.log_rows import Receipt
from ddpquiz.learning.progress import Progress
from ddpquiz.terminal.kit.key_screen import Hotkey, KeyScreen, key_line, leave_to, prefixed
from ddpquiz.terminal.kit.layout import show
from ddpquiz.terminal.kit.style import plain
from ddpquiz.terminal.pages.listing import source_line

UNFLAG = Hotkey("f", "unflag", "remove your flag from this item")
FLAG = Hotkey("f", "flag", "mark this item as wrong or unclear; press again to undo")
DEMO = Hotkey("d", "demo", "run this concept's demo on real ranks, and come back here")
PROOF = Hotkey("p", "proof", "run the proof of the answer, and come back here")
SOURCE = Hotkey("v", "source", "show the source of this item")


class Actions(Protocol):
    """What a sitting can start. Each method leaves the terminal usable, and may raise UserError."""

    def warm(self) -> None:
        """Prepare for demos while the learner reads."""

    def demo(self, link: DemoLink, *, answered: str, step: bool) -> str | None:
        """Run a demo after a prediction; return a remark about it, or None if the learner declined the run.

        The question `answered` is not used for the prediction. With `step`, the run opens at its first operation once
        it has ended.
        """

    def prove(self, posed: Posed) -> object:
        """Run the proof of a question, and return once the learner has read the result."""


@dataclass
class SessionContext:
    """What every sitting needs: the progress, the concepts, the sources, the actions, and the clock.

    `place` is where a sitting stands in a guided path, such as `4 of 6: cards`; "" elsewhere. `back_to` is the screen
    to which `q` leads, `home` or `stages`; "" where it ends the program.
    """

    progress: Progress
    concepts: Mapping[str, Concept]
    sources: Mapping[str, Source]
    actions: Actions
    clock: Callable[[], datetime]
    place: str = ""
    back_to: str = ""

    def questions(self, keys: Collection[str]) -> list[Question]:
        """Return the questions with these keys, in the order of the content."""
        return [each for concept in self.concepts.values() for each in concept.questions if each.key in keys]


class SittingScreen(KeyScreen):
    """The screen of a sitting, controlled by keys or, in a pipe, by lines."""

    def __init__(self, context: SessionContext) -> None:
        super().__init__()
        self.context = context

    @property
    def leave(self) -> Hotkey:
        """The key that leaves, named after where it leads."""
        return leave_to(self.context.back_to)

    @property
    @abstractmethod
    def over(self) -> bool:
        """Whether the sitting is over."""

    @abstractmethod
    def summary(self) -> RenderableType:
        """Draw the result of the sitting."""

    @abstractmethod
    def new_lines(self) -> RenderableType:
        """Draw what is new, for a terminal that cannot be painted."""

    def handle_line(self, line: str) -> None:
        """Obey a line: the name of a key."""
        self.handle_key(line)

    def goes_on(self) -> bool:
        """Go on without a line if no line is needed here; return whether it did."""
        return False

    def line_keys(self) -> list[Hotkey]:
        return [*self.keys(), *prefixed(self.commands(), ":")]

    def opened(self) -> None:
        """Import torch while the learner reads."""
        self.context.actions.warm()

    def demo_of(self, concept: str | None) -> DemoLink | None:
        found = self.context.concepts.get(concept or "")
        return found.demos[0] if found and found.demos else None

    def run_demo(self, link: DemoLink | None, *, answered: str = "", step: bool = False) -> bool:
        """Run a demo; return whether the learner saw it. For the options see `Actions.demo`."""
        if link is None:
            self.note = "This concept has no demo."
            return False
        said = self._leave(lambda: self.context.actions.demo(link, answered=answered, step=step))
        self.note = said if isinstance(said, str) else self.note
        return said is not None

    def run_proof(self, posed: Posed) -> None:
        self._leave(lambda: self.context.actions.prove(posed))

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
        return UNFLAG if self.is_flagged(item) else FLAG

    @cached_property
    def _flags(self) -> dict[str, list[Receipt]]:
        flags: dict[str, list[Receipt]] = {}
        for row in self.context.progress.entries("flag"):
            flags.setdefault(row.item, []).append(row.receipt)
        return flags

    def show_source(self, key: str) -> None:
        source = self.context.sources.get(key)
        self.note = source_line(source) if source else key

    def read(self, console: Console, lines: Iterable[str], *, asked: bool = False) -> None:
        """Read lines instead of keys, in a pipe or on a terminal that cannot be painted, and print what is new.

        With `asked`, the keys are printed before each line, for a person. The sitting ends when the lines end.
        """
        scene: Hashable = None
        commands = iter(lines)
        while not self.left and not self.over:
            if self.scene != scene:
                show(console, self.new_lines())
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

    def _leave(self, run: Callable[[], object]) -> object:
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


def header(*parts: str) -> Text:
    """Draw where the learner is in a sitting."""
    return Text(plain(" · ".join(part for part in parts if part)), style="accent")


def note_lines(note: str) -> list[RenderableType]:
    """Draw the note about the last key, if there is one."""
    return [Text(plain(note), style="warn")] if note else []
