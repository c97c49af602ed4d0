"""The guided path on the screen: the stages of a concept one after the other, and where the learner is."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Protocol

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.curriculum.concept import Concept, DemoLink
from ddpquiz.learning.guided_path import GuidedPath, PathStage, StageName, StageState
from ddpquiz.terminal.kit.key_screen import GOES_BACK, HELP, Hotkey
from ddpquiz.terminal.kit.layout import Barred, columns, counted
from ddpquiz.terminal.kit.style import plain, prose
from ddpquiz.terminal.sittings.sitting import SessionContext, SittingScreen, note_lines

_WORDS = {StageState.DONE: "✓ done", StageState.SKIPPED: "skipped", StageState.OPEN: ""}


@dataclass(frozen=True, slots=True)
class DemoVisit:
    """What came of a demo: a remark about the prediction, whether there was one, and whether the run ended well."""

    remark: str
    was_predicted: bool
    ended_well: bool


class PathActions(Protocol):
    """What the stages start. Each method uses the whole terminal, but for the pages, and may raise UserError."""

    def path(self, concept: Concept) -> GuidedPath:
        """Return how far the path through a concept is now."""

    def next_path(self) -> GuidedPath | None:
        """Return the path to go on with after this one; None if all are finished."""

    def lesson(self, concept: Concept) -> RenderableType:
        """Draw the lesson of a concept."""

    def demo(self, path: GuidedPath, link: DemoLink, *, predict: bool) -> DemoVisit | None:
        """Run a demo, after a prediction if one is wanted; return None if the learner declines it."""

    def study(self, path: GuidedPath) -> None:
        """Ask the cards of a concept."""

    def test(self, path: GuidedPath, count: int) -> None:
        """Ask some questions about a concept."""

    def lab(self, path: GuidedPath) -> None:
        """Open the lab of a concept."""


class PathScreen(SittingScreen):
    """The stages of a path; a lesson that was not read yet is opened at once."""

    def __init__(self, context: SessionContext, actions: PathActions, concept: Concept) -> None:
        super().__init__(context)
        self._actions = actions
        self._visits = 0
        self._reads = False  # the lesson is on the screen
        self._go_to(concept)

    def _go_to(self, concept: Concept) -> None:
        self.path = self._actions.path(concept)
        self._reads = self._is_current(StageName.LESSON)

    @property
    def scene(self) -> Hashable:
        return self._visits, self._reads, self.path.concept.id

    @property
    def reading(self) -> bool:
        return self._reads

    @property
    def turning(self) -> tuple[str, ...]:
        return ("enter",) if self._reads else ()

    @property
    def over(self) -> bool:
        return False

    def body(self) -> RenderableType:
        concept, now = self.path.concept, self.path.current
        if self._reads:
            place = Text(self.path.place(StageName.LESSON), style="accent")
            return Group(place, Text(), self._actions.lesson(concept))
        where = f"Next is {self.path.place(now.stage)}." if now else "You have finished this path."
        head: list[RenderableType] = [Text(plain(concept.title), style="head"), Barred(prose(concept.idea)), Text()]
        return Group(*head, stages(self.path), Text(), Text(where, style="accent"), Text(), *note_lines(self.note))

    def keys(self) -> list[Hotkey]:
        now, count = self.path.current, len(self.path.stages)
        if self._reads:
            on = Hotkey("enter", "go on", "show the next page; after the last one, go on with the next stage")
            skip = Hotkey("s", "skip", "leave the rest of the lesson out, and go on with the next stage")
            back = Hotkey("esc", "stages", "back to the stages; the lesson stays open (q and backspace do it too)")
            return [on, skip, back, HELP]
        key = "n" if now else "enter"  # at the end of a path, both
        following = Hotkey(key, "next concept", "go on with the path of the next concept")
        keys = [
            Hotkey("enter", str(now.stage), f"go on with the next stage: {now.stage}") if now else following,
            Hotkey("s", "skip", "leave this stage out") if now else None,
            Hotkey(f"1-{count}", "stage", "go to a stage, or repeat one"),
            following if now else None,
        ]
        return [*filter(None, keys), HELP, self.leave]

    def press(self, key: str) -> None:
        now = self.path.current
        if self._reads:
            self._press_in_lesson(key)
        elif key == "enter" and now:
            self._open(now)
        elif key == "s" and now:
            self._save(now.stage, StageState.SKIPPED)
        elif key.isdecimal() and 1 <= int(key) <= len(self.path.stages):
            self._open(self.path.stages[int(key) - 1])
        elif key == "n" or (key == "enter" and not now):
            self._next_concept()
        elif key == "q" or (key == "escape" and self.context.back_to):
            self.left = True

    def _press_in_lesson(self, key: str) -> None:
        if key in ("enter", "s"):
            self._reads, is_first = False, self._is_current(StageName.LESSON)
            if key == "enter" or is_first:
                self._save(StageName.LESSON, StageState.DONE if key == "enter" else StageState.SKIPPED)
            if is_first and self.path.current:
                self._open(self.path.current)
        elif key in GOES_BACK:
            self._reads = False

    def _open(self, stage: PathStage) -> None:
        match stage.stage:
            case StageName.LESSON:
                self._reads = True
            case StageName.PREDICTION | StageName.DEMO if self.path.demo:
                self._demo(self.path.demo, predict=stage.stage is StageName.PREDICTION)
            case StageName.CARDS:
                self._visit(lambda: self._actions.study(self.path))
            case StageName.QUESTIONS:
                self._visit(lambda: self._actions.test(self.path, stage.left or stage.count))
            case StageName.LAB:
                self._visit(lambda: self._actions.lab(self.path))

    def _demo(self, link: DemoLink, *, predict: bool) -> None:
        """Run the demo; after a prediction, that is two stages in one."""
        visited = self._visit(lambda: self._actions.demo(self.path, link, predict=predict))
        if not isinstance(visited, DemoVisit):
            return
        if predict and not visited.was_predicted and self._is_current(StageName.PREDICTION):
            self._save(StageName.PREDICTION, StageState.SKIPPED)
        if visited.ended_well:
            self._save(StageName.DEMO, StageState.DONE)
        self.note = visited.remark if visited.ended_well else "The demo did not run to its end; its stage stays open."

    def _visit(self, run: Callable[[], object]) -> object:
        done = self._leave(run)
        self._look_again()
        return done

    def _save(self, stage: StageName, state: StageState) -> None:
        self.context.progress.stage(f"{self.path.concept.id}/{stage}", state, self.context.clock())
        self._look_again()

    def _look_again(self) -> None:
        self.path = self._actions.path(self.path.concept)
        self._visits += 1

    def _next_concept(self) -> None:
        following = self._actions.next_path()
        if following:
            self._go_to(following.concept)
        else:
            self.note = "You have finished the paths of all concepts."

    def _is_current(self, stage: StageName) -> bool:
        return self.path.current is not None and self.path.current.stage is stage

    def summary(self) -> RenderableType:
        """Draw how to go on, unless the home screen does that."""
        if self.context.back_to:
            return Group()
        name, now = self.path.concept.id, self.path.current
        if now:
            return prose(f"Next is {self.path.place(now.stage)}. Go on with `ddpquiz learn {name}`.")
        return prose(f"You have finished the path of {name}. `ddpquiz learn` goes on with the next one.")

    def new_lines(self) -> RenderableType:
        return self.body()


def stages(path: GuidedPath) -> RenderableType:
    """Draw the stages of a path: how far each is, and what it consists of."""
    current = path.current
    rows = []
    for number, each in enumerate(path.stages, 1):
        word = "▸ next" if each is current else _WORDS[each.state]
        name = Text(f"{number} {each.stage}", style="key" if each is current else "")
        rows.append((name, Text(word, style="good" if each.state is StageState.DONE else ""), Text(_about(path, each))))
    return columns(rows)


def _about(path: GuidedPath, each: PathStage) -> str:
    link, lab = path.demo, path.lab
    match each.stage:
        case StageName.LESSON:
            return "why, how, real commands, mistakes"
        case StageName.PREDICTION if link:
            return f"what will the demo {link.run} show?"
        case StageName.DEMO if link:
            return f"{link.run}, on {counted(link.ranks, 'rank') if link.ranks else 'real ranks'}"
        case StageName.CARDS:
            left = f", {each.left} not seen yet" if 0 < each.left < each.count else ""
            return f"{counted(each.count, 'card')}{left}"
        case StageName.QUESTIONS:
            left = f", {each.left} left" if 0 < each.left < each.count else ""
            return f"{counted(each.count, 'question')}{left}"
        case StageName.LAB if lab:
            built = f"{each.count - each.left} of {each.count} built; then " if 0 < each.left < each.count else ""
            return plain(f"{built}{lab.title}, about {lab.minutes} minutes")
    return ""
