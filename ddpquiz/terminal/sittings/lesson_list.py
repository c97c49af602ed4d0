"""All lessons in the order in which they are learned, with how far the learner is in each; one of them is opened."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.curriculum.concept import Concept
from ddpquiz.learning.guided_path import GuidedPath, PathHistory, StageName, StageState, guided_path, route
from ddpquiz.terminal.kit.grid import FOCUS
from ddpquiz.terminal.kit.key_screen import HELP, Hotkey
from ddpquiz.terminal.kit.layout import Brief, columns, header, section
from ddpquiz.terminal.kit.style import console, plain, prose
from ddpquiz.terminal.sittings.look import history_of, path_to_go_on
from ddpquiz.terminal.sittings.path_screen import PathScreen
from ddpquiz.terminal.sittings.sitting import LOOK, SittingContext, SittingScreen, run_sitting

_MARKS = {StageState.DONE: ("✓", "good"), StageState.SKIPPED: ("-", "quiet"), StageState.OPEN: (" ", "")}
_CHOOSE = Hotkey("↑ ↓", "choose", "move the mark up or down, or type a lesson's number", also=tuple("0123456789"))
_MOVES = {"up": -1, "down": 1, "pageup": -12, "pagedown": 12, "home": -1000, "end": 1000}  # lessons


class LessonList(SittingScreen):
    """The lessons, numbered; the one to go on with is marked first."""

    def __init__(self, context: SittingContext) -> None:
        super().__init__(context)
        self._typed = ""  # the digits of a number that may go on
        self._look()
        self._at = self._lessons.index(self._next) if self._next else 0

    def _look(self) -> None:
        self._history: PathHistory = history_of(self.context)
        self._lessons: Sequence[Concept] = route(self.context.catalog, self._history)
        following = path_to_go_on(self.context)
        self._next = following.concept if following else None

    @property
    def scene(self) -> Hashable:
        return None  # it stays where it is scrolled to when the learner comes back from a lesson

    @property
    def focus(self) -> Hashable:
        return self._at

    @property
    def turning(self) -> tuple[str, ...]:
        return ()  # space opens what is marked

    @property
    def over(self) -> bool:
        return False

    @property
    def _marked(self) -> Concept:
        return self._lessons[self._at]

    def body(self) -> RenderableType:
        core = len(self.context.catalog.core)
        titles = {track.id: track.title for track in self.context.catalog.tracks}
        groups: dict[str, list[tuple[Text, Text, Text]]] = {}
        for place, concept in enumerate(self._lessons):
            name = "Core route, to learn first" if place < core else titles.get(concept.track, concept.track)
            groups.setdefault(name, []).append(self._row(place, concept))
        parts = [part for name, rows in groups.items() for part in section(plain(name), columns(rows, gap=1))]
        read = sum(self._history.has_read(concept.id) for concept in self._lessons)
        return Group(header("Lessons", f"{read} of {len(self._lessons)} done"), *parts, Text())

    def _row(self, place: int, concept: Concept) -> tuple[Text, Text, Text]:
        path = self._path(concept)
        mark, style = _MARKS[path.stages[0].state]
        is_marked, is_next = place == self._at, concept is self._next
        number = Text.assemble((">" if is_marked else " ", "key"), (mark, style), f" {place + 1:>2}")
        title = Text(plain(concept.title), style="key" if is_marked else "")
        if is_marked:
            number.stylize(FOCUS)
        begun = f"step {path.step + 1} of {path.stages[0].count}" if path.step else ""
        is_done = path.stages[0].state is StageState.DONE
        lab = is_done and any(each.stage is StageName.LAB and each.state is StageState.OPEN for each in path.stages)
        said = ", ".join(filter(None, ("next" * is_next, begun, "lab open" * lab)))
        return number, title, Text(f" {said}" if said else "", style="accent")

    def _path(self, concept: Concept) -> GuidedPath:
        return guided_path(concept, self.context.catalog.labs_about(concept.id), self._history)

    def above_keys(self) -> list[RenderableType]:
        return [Brief(prose(self._marked.idea, "quiet"), 3)]

    def keys(self) -> list[Hotkey]:
        what = f'learn "{self._marked.title}"'
        does = "go on" if self._history.has_read(self._marked.id) or self._path(self._marked).step else "begin"
        return [Hotkey("enter", does, what, also=("space",)), _CHOOSE, LOOK, HELP, self.leave]

    def press(self, key: str) -> None:
        typed, self._typed = self._typed, ""
        match key:
            case "q":
                self.left = True
            case "enter":
                self._leave(self.learn)
                self._look()
                if self._next and self._history.has_read(self._marked.id):
                    self._at = self._lessons.index(self._next)
            case "/":
                self.look_up()
            case _ if key in _MOVES:
                self._at = min(max(0, self._at + _MOVES[key]), len(self._lessons) - 1)
            case _ if key.isdecimal():
                self._type(typed, key)

    def _type(self, typed: str, digit: str) -> None:
        """Mark the lesson with a number whose digits are typed one after the other."""
        number = next((each for each in (typed + digit, digit) if 1 <= int(each) <= len(self._lessons)), "")
        self._typed = number
        self._at = int(number) - 1 if number else self._at

    def _scrolling(self, key: str) -> str:
        return "" if key in _MOVES else super()._scrolling(key)

    def learn(self) -> None:
        run_sitting(PathScreen(replace(self.context, back_to="lessons"), self._marked), console())

    def summary(self) -> RenderableType:
        return Group()
