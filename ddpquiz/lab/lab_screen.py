"""A lab on the screen: each save of the learner's file starts a check, and the verdict is shown at once.

A check runs in the background, one at a time; a newer one ends the one before.
"""

import contextlib
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from rich.console import Console, Group, RenderableType
from rich.text import Text

from ddpquiz.curriculum.lab import Lab, LabRun
from ddpquiz.errors import UserError
from ddpquiz.events.event import Began
from ddpquiz.lab import lab_pages
from ddpquiz.lab.checker import Stopped, check_solution, compare
from ddpquiz.lab.folder import Stamp, stamp
from ddpquiz.lab.history import LabHistory
from ddpquiz.lab.verdict import LabFigure, LabVerdict
from ddpquiz.plural import plural
from ddpquiz.ranks.server_connection import server
from ddpquiz.terminal.kit.editor import open_file
from ddpquiz.terminal.kit.key_screen import BACK, GOES_BACK, HELP, Hotkey, KeyScreen, leave_to
from ddpquiz.terminal.kit.keys import Keys
from ddpquiz.terminal.kit.layout import columns, section
from ddpquiz.terminal.kit.screen import Screen
from ddpquiz.terminal.kit.style import console, plain
from ddpquiz.terminal.runs.replay import replay

_IDLE, _BUSY = 0.3, 0.1  # seconds between two looks at the file, and at a check that runs


class LabScreen(KeyScreen):
    """Watches one file. `wants_next` is True if the learner left for the next lab; for `place` see SittingContext.

    `run_demo` runs the demo of a concept, and may raise UserError.
    """

    def __init__(
        self, lab: Lab, file: Path, history: LabHistory, run_demo: Callable[[str], None], place: str = ""
    ) -> None:
        super().__init__()
        self._place = [Text(place, style="accent")] if place else []
        self.lab, self.file = lab, file
        self.wants_next = False
        self._history, self._run_demo = history, run_demo
        self._checker = _LabChecker(lab, file)
        self._drawn: object = None  # the state of the checker that is on the screen
        self._page: Literal["", "task", "solution"] = ""
        self._hints = history.hints_shown(lab)
        self._shows_hints = False
        self._attempted = False  # a check has run
        self._was_saved = False  # the learner has saved the file since the screen was opened
        self._asked_solution = False  # s was pressed once
        self._checked: Stamp = stamp(file)
        self._noticed: Stamp = self._checked  # of a change that may not be complete
        self._saved: LabVerdict | None = None  # the pass that is in the log
        self.find_following: Callable[[], Lab | None] = lambda: None  # the next lab; may raise UserError
        self._following: Lab | None = None  # the same, once this lab has passed
        self._before: LabVerdict | None = None  # on the try before the last one
        self._last: LabVerdict | None = None  # on the last try; the unchanged starter is no try
        self._width = 80

    def show(self, console: Console) -> None:
        """Watch until the learner leaves; then no rank is left."""
        self._width = console.width
        try:
            super().show(console)
        finally:
            self._checker.stop()

    def opened(self) -> None:
        self._checker.start()

    def wait(self, keys: Keys) -> str | None:
        """Wait for a key; return None when there is something new to show."""
        while True:
            busy = self._checker.state.running or self._noticed != self._checked
            key = keys.get(_BUSY if busy else _IDLE)
            if key is not None or self._look() or self._checker.state is not self._drawn:
                return key

    def tick(self) -> bool:
        """Save a pass as soon as it is there."""
        verdict = self._checker.state.verdict
        if verdict and verdict.outcome != "unwritten" and verdict is not self._last:
            self._before, self._last = self._last, verdict
            self._attempted = True
        if verdict and verdict.passed and verdict is not self._saved:
            self._saved = verdict
            self._try(lambda: self._history.save_pass(self.lab, verdict))
            self._try(self._find_next)
        return False

    def _find_next(self) -> None:
        self._following = self.find_following()

    def _look(self) -> bool:
        """Start a check if the file was saved and has not changed since the last look; return whether that is so."""
        now, before = stamp(self.file), self._noticed
        self._noticed = now
        if now == self._checked or now != before:
            return False
        self._checked, self._was_saved = now, True
        if now is None:
            self.note = f"{self.file.name} is gone. Save it again, or write the starter with --reset."
            return True
        self._page, self.note = "", ""
        self._checker.start()
        return True

    def paint(self, screen: Screen) -> None:
        self._drawn, self._width = self._checker.state, screen.console.width
        super().paint(screen)

    @property
    def scene(self) -> Hashable:
        return self._page, id(self._checker.state.verdict)  # a new verdict is read from its first line

    @property
    def inside(self) -> bool:
        return bool(self._place)

    @property
    def early(self) -> tuple[str, ...]:
        return (*super().early, "r", "h", "t", "s", "e")

    @property
    def reading(self) -> bool:
        return bool(self._page)

    def body(self) -> RenderableType:
        match self._page:
            case "task":
                return lab_pages.task(self.lab, self.file)
            case "solution":
                return lab_pages.solution(self.lab, self.file, self._width)
        state = self._checker.state
        parts: list[RenderableType] = [*self._place, lab_pages.head(self.lab), lab_pages.path_of(self.file), Text()]
        if state.verdict:
            said = [
                *lab_pages.verdict(self.lab, self.file, state.verdict, state.figures, self._before),
                *lab_pages.repeat(state.verdict),
                *(section("Next", columns(self._next())) if self.has_passed else []),
            ]
            if not self._was_saved and state.verdict.outcome not in ("unwritten", "passed"):
                task = section("Task", lab_pages.task_text(self.lab))  # nobody repairs what he has not read about
                said = [*task, *section("The file as it is", *said)]
            parts += said
        elif state.fault:
            parts.append(Text(plain(state.fault), style="bad"))
        if not state.verdict or state.verdict.outcome == "unwritten":
            parts += section("Task", lab_pages.task_text(self.lab))
        if self._shows_hints and not self.has_passed:
            parts += [
                part for number in range(1, self._hints + 1) for part in (Text(), lab_pages.hint(self.lab, number))
            ]
        return Group(*parts)

    def _next(self) -> list[tuple[Text, Text]]:
        """The keys that lead on from a pass, and where each leads."""
        known = [("enter", "back to the stages of this concept, which name the next lesson")] if self._place else []
        if self._following:
            known.append(("n", f'the next lab: "{self._following.title}"'))
        known.append(("s", "the solution, to compare it with your file"))
        return [(Text(key, style="key"), Text(plain(what))) for key, what in known]

    def above_keys(self) -> list[RenderableType]:
        state = self._checker.state
        idle = "passed; each save is checked again" if self.has_passed else f"waiting for you to save {self.file.name}"
        doing = f"checking: {state.doing}" if state.running else idle
        return [Text(doing, style="accent" if state.running else "quiet")]

    def keys(self) -> list[Hotkey]:
        if self._page:
            return [replace(BACK, also=(*GOES_BACK, self._page[0])), HELP]
        verdict, passed = self._checker.state.verdict, self.has_passed
        left = len(self.lab.hints) - self._hints * self._shows_hints
        on = Hotkey("enter", "go on", "go back to the stages of this concept; the pass is saved", also=("space",))
        every = [
            on if passed and self._place else None,
            Hotkey("n", "next lab", "go on with the next lab that you have not passed") if passed else None,
            Hotkey("h", "hint", "show the next hint") if left and not passed else None,
            Hotkey("t", "task", "read the task again"),
            Hotkey("v", "last run", "step through the last run") if verdict and verdict.events else None,
            Hotkey("e", "editor", "open the file in your editor"),
            Hotkey("r", "again", "check the file again"),
            Hotkey("d", "demo", "run the demo of this concept"),
            Hotkey("s", "solution", f"see the reference solution{'' if passed else '; a pass after that counts half'}"),
            None if passed else Hotkey("n", "next lab", "go on with the next lab that you have not passed"),
        ]
        return [*filter(None, every), HELP, leave_to("stages" if self._place else "")]

    def press(self, key: str) -> None:
        if self._page:
            self._page = "" if key in (*GOES_BACK, self._page[0]) else self._page
            return
        asked, self._asked_solution = self._asked_solution, False
        verdict = self._checker.state.verdict
        match key:
            case "q" | "n" | "enter" | "space" if key in ("q", "n") or (self.has_passed and self._place):
                self.left, self.wants_next = True, key == "n"
            case "h":
                self._show_hint()
            case "t":
                self._page = "task"
            case "s":
                self._show_solution(asked=asked)
            case "r":
                self._checker.start()
            case "e":
                self._outside(lambda: open_file(self.file))
            case "d":
                self._outside(lambda: self._run_demo(self.lab.concept))
            case "v" if verdict and verdict.events:
                self._outside(lambda: self._replay(verdict))

    def _show_hint(self) -> None:
        """Show those hints that were shown before, and then one more with each key."""
        if not self._shows_hints and self._hints:
            self._shows_hints = True
        elif self._hints < len(self.lab.hints):
            self._hints, self._shows_hints = self._hints + 1, True
            self._try(lambda: self._history.save_hints(self.lab, self._hints))
        else:
            self.note = "All hints are shown."

    @property
    def passed_here(self) -> bool:
        """True if any check since the screen was opened was a pass."""
        return self._saved is not None

    @property
    def has_passed(self) -> bool:
        """True if the last check that ended was a pass."""
        verdict = self._checker.state.verdict
        return bool(verdict and verdict.passed)

    @property
    def added(self) -> Hashable:
        return self._hints * self._shows_hints

    def _show_solution(self, *, asked: bool) -> None:
        if not (self._attempted or asked):
            self._asked_solution = True
            self.note = "You have not tried yet. Press s again to see the solution; a pass then counts half."
            return
        self._page = "solution"
        self._try(lambda: self._history.save_seen(self.lab))

    def _replay(self, verdict: LabVerdict) -> None:
        """Replay the last run, with the learner's file as its script; one that did not pass opens at its end."""
        began, *rest = verdict.events
        if isinstance(began, Began):  # the learner's file is the one to look at, not the check
            device, _, _ = began.reason.partition(" · ")  # the check chose it
            script = str(self.file.absolute())
            began = replace(began, script=script, title=self.lab.title, highlighted=(), reason=device)
        replay([began, *rest], console(), stay=True, at_end=not verdict.passed)

    def _outside(self, run: Callable[[], None]) -> None:
        """Run something that uses the whole terminal, and the server if it starts ranks."""
        if self._checker.state.running:
            self._checker.stop()
        with self._away() if self._away else contextlib.nullcontext():
            self._try(run)

    def _try(self, run: Callable[[], None]) -> None:
        try:
            run()
        except UserError as error:
            self.note = str(error)
        except (KeyboardInterrupt, EOFError):
            self.note = "stopped"


_BRIEF = 0.05  # seconds


@dataclass(frozen=True, slots=True)
class _CheckState:
    """How far a check is: the run that goes on, then the verdict, then the figures; or why the check did not finish."""

    running: bool = False
    doing: str = ""
    verdict: LabVerdict | None = None
    figures: tuple[LabFigure, ...] = ()
    fault: str = ""


class _LabChecker:
    """Checks a file in a thread. `state` is replaced whole, so that the screen may read it at any time."""

    def __init__(self, lab: Lab, file: Path) -> None:
        self._lab, self._file = lab, file
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()  # asks the thread to end
        self.state = _CheckState()

    def start(self) -> None:
        """Begin a check; one that still runs is ended first."""
        self.stop()
        self._ended = threading.Event()
        self.state = _CheckState(running=True, doing="begins")
        try:
            server()  # here: while it imports torch, it ends with the thread that has started it
        except UserError as error:
            self.state = _CheckState(fault=str(error))
            return
        self._thread = threading.Thread(target=self._check, args=(self._ended,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the check that runs, if there is one, and all its ranks."""
        self._ended.set()
        if self._thread:
            self._thread.join()
            self._thread = None
        if self.state.running:
            self.state = _CheckState()

    def _check(self, ended: threading.Event) -> None:
        verdict = None
        try:
            if not self._loads_torch(ended):
                return
            verdict = check_solution(self._lab, self._file, report=self._report, stop=ended.is_set)
            self.state = _CheckState(verdict=verdict)
            if verdict.passed:
                self.state = _CheckState(verdict=verdict, figures=compare(self._lab, verdict, ended.is_set))
        except Stopped:
            if verdict is None:
                self.state = _CheckState()
        except UserError as error:
            self.state = _CheckState(fault=str(error))

    def _loads_torch(self, ended: threading.Event) -> bool:
        """Wait until ranks can start; return False if the check was ended meanwhile."""
        serving = server()
        if not serving.is_ready(0):
            self.state = _CheckState(running=True, doing="loading torch")
        while not serving.is_ready(_BRIEF):
            if ended.is_set():
                return False
        return True

    def _report(self, number: int, of: int, run: LabRun) -> None:
        self.state = _CheckState(running=True, doing=f"run {number} of {of}, on {plural(run.ranks, 'rank')}")
