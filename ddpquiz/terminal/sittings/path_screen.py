"""The guided path on the screen: the stages of a concept, and where the learner is."""

import os
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.text import Text

from ddpquiz.curriculum.concept import Concept, DemoLink
from ddpquiz.learning.guided_path import (
    GuidedPath,
    PathStage,
    StageName,
    StageState,
    guided_path,
    missed_in_steps,
    next_path,
    route,
)
from ddpquiz.learning.schedule import NEW_A_DAY, begun, study_day
from ddpquiz.paths import own_labs_dir
from ddpquiz.plural import plural
from ddpquiz.terminal.kit.key_screen import GOES_BACK, HELP, Hotkey
from ddpquiz.terminal.kit.keys import Keys
from ddpquiz.terminal.kit.layout import Barred, columns
from ddpquiz.terminal.kit.screen import Screen
from ddpquiz.terminal.kit.style import console, plain, prose
from ddpquiz.terminal.sittings.lesson_page import lesson_page
from ddpquiz.terminal.sittings.lesson_screen import LessonScreen
from ddpquiz.terminal.sittings.look import history_of
from ddpquiz.terminal.sittings.more_screen import MORE, MoreScreen
from ddpquiz.terminal.sittings.rank_runner import DemoOptions
from ddpquiz.terminal.sittings.sitting import LOOK, SittingContext, SittingScreen

_WORDS = {StageState.DONE: "✓ done", StageState.SKIPPED: "skipped", StageState.OPEN: ""}


class PathScreen(SittingScreen):
    """The stages of a path; a lesson that was not read yet is opened at once."""

    def __init__(self, context: SittingContext, concept: Concept) -> None:
        super().__init__(context)
        self._visits = 0
        self._reads = False  # a lesson in one text is on the screen
        self.lesson: LessonScreen | None = None  # a lesson in steps, which takes the place of this screen
        self._go_to(concept)

    def _go_to(self, concept: Concept) -> None:
        self.path = path_of(self.context, concept)
        if self._is_current(StageName.LESSON):
            self._open_lesson()

    def _open_lesson(self) -> None:
        concept = self.path.concept
        if concept.in_steps:
            here = replace(self.context, back_to="stages")
            kept = self.context.open_lessons.pop(concept.id, None)
            goes_on = kept is not None and kept.go_on_in(here, self.path.step)
            self.lesson = kept if goes_on else LessonScreen(here, concept, history_of(self.context), self.path.step)
            self.lesson.leads_to = self.context.back_to
        else:
            self._reads = True

    def show(self, console: Console) -> None:
        """Show the stages and the steps of a lesson in turn, on one screen."""
        with Screen(console) as screen, Keys(away=screen.suspended) as keys:
            while not self.left:
                if lesson := self.lesson:
                    try:
                        lesson.loop(screen, keys)
                    finally:  # also after ctrl+c, since the summary says where the lesson goes on
                        self.leave_lesson(lesson)
                    if lesson.finished:
                        self._away = keys.suspended
                        self._ask_missed()
                else:
                    self.loop(screen, keys)

    def leave_lesson(self, lesson: LessonScreen) -> None:
        """Go back from the steps of a lesson to the stages, or leave with it."""
        self.lesson = None
        if not lesson.finished:
            self.context.open_lessons[lesson.concept.id] = lesson
        self._look_again()
        self.left = lesson.leaves_path

    def _ask_missed(self) -> None:
        """Ask what the learner missed in the steps of the lesson once more, now that all of them were gone through."""
        if missed := missed_in_steps(self.path.concept, self.context.progress):
            from ddpquiz.terminal.sittings.quiz_screen import once_more  # the lesson does not wait for it

            self._visit(lambda: once_more(replace(self.context, back_to="stages"), missed).show(console()))

    @property
    def closed(self) -> bool:
        return self.left or self.lesson is not None

    @property
    def scene(self) -> Hashable:
        return self._visits, self._reads, self.path.concept.id

    @property
    def reading(self) -> bool:
        return self._reads

    @property
    def over(self) -> bool:
        return False

    def body(self) -> RenderableType:
        concept, now = self.path.concept, self.path.current
        if self._reads:
            place = Text(self.path.place(StageName.LESSON), style="accent")
            return Group(place, Text(), lesson_page(self.context.catalog, concept))
        where = [Text(f"Next is stage {self.path.position}." if now else "This concept is finished.", style="accent")]
        states = {each.stage: each.state for each in self.path.stages}
        above: list[RenderableType] = [Barred(prose(concept.idea))]
        if concept.in_steps and states[StageName.LESSON] is StageState.DONE:
            if self.path.skipped <= len(concept.steps) / 2:
                missed = len(missed_in_steps(concept, self.context.progress))
                above = [Text(), prose(_missed(missed), "warn") if missed else prose(f"✓ {_able(concept)}", "good")]
            if states.get(StageName.CARDS) is not StageState.SKIPPED:
                back = prose(_coming_back(self.context, self.path))
                where = [back, *([] if now else [Text(), *where])]  # the stages say what is next
        head: list[RenderableType] = [Text(plain(concept.title), style="head"), *above, Text()]
        return Group(*head, stages(self.path, self._next_stage), Text(), *where, Text())

    @property
    def _next_stage(self) -> PathStage | None:
        """The stage that enter opens; None at the end. New cards are passed over after enough of a day."""
        enough = self.path.concept.in_steps and _begun_today(self.context) >= NEW_A_DAY
        left = (each for each in self.path.stages if each.state is StageState.OPEN)
        return next((each for each in left if not (enough and each.stage is StageName.CARDS)), None)

    @property
    def _is_followed(self) -> bool:
        """Whether the lesson is in steps, whose path has no stage with questions, and done."""
        return self.path.concept.in_steps and self.path.stages[0].state is StageState.DONE

    @property
    def _can_test(self) -> bool:
        return self._is_followed and bool(self.path.concept.questions)

    @property
    def _has_more(self) -> bool:
        return self._is_followed and bool(self.path.concept.more)

    def keys(self) -> list[Hotkey]:
        now, count = self._next_stage, len(self.path.stages)
        if self._reads:
            more = "show the next page; after the last one, go on to the next stage"
            on = Hotkey("enter", "go on", more, also=("space",))
            skip = Hotkey("s", "skip", "skip the rest of the lesson, and go on to the next stage")
            back = Hotkey("esc", "stages", "back to the stages; the lesson stays open (or q, backspace)")
            return [on, skip, back, HELP]
        key = "n" if now else "enter"  # at the end of a path, both
        also = () if now else ("space",)
        following = Hotkey(key, "next lesson", "go to the next lesson", also=also)
        keys = [
            Hotkey("enter", str(now.stage), f"go on to the next stage: {now.stage}", also=("space",))
            if now
            else following,
            Hotkey("s", "skip", "skip this stage") if now else None,
            Hotkey(f"1-{count}", "stage", "go to a stage, or repeat one"),
            following if now else None,
            Hotkey("t", "test", "questions about this lesson, which count") if self._can_test else None,
            Hotkey("m", "more", MORE) if self._has_more else None,
        ]
        return [*filter(None, keys), LOOK, HELP, self.leave]

    def press(self, key: str) -> None:
        enters = self._next_stage
        if self._reads:
            self._press_in_lesson(key)
        elif key == "enter" and enters:
            self._open(enters)
        elif key == "s" and enters:
            self._save(enters.stage, StageState.SKIPPED)
        elif key.isdecimal() and 1 <= int(key) <= len(self.path.stages):
            self._open(self.path.stages[int(key) - 1])
        elif key == "t" and self._can_test:
            self._visit(self.test_lesson)
        elif key == "m" and self._has_more:
            self._visit(lambda: MoreScreen(self.context, self.path.concept, back_to="the stages").show(console()))
        elif key == "/":
            self.look_up()
        elif key in ("n", "enter"):
            self._next_concept()
        elif key == "q":
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
                self._open_lesson()
            case StageName.PREDICTION | StageName.DEMO if self.path.demo:
                self._demo(self.path.demo, predict=stage.stage is StageName.PREDICTION)
            case StageName.CARDS:
                self._visit(self.ask_cards)
            case StageName.QUESTIONS:
                self._visit(lambda: self.ask_questions(stage.left or stage.count))
            case StageName.LAB if lab := self.path.lab:
                self._visit(lambda: self.context.open_lab(lab.id, self.path.place(StageName.LAB)))

    def _demo(self, link: DemoLink, *, predict: bool) -> None:
        """Run the demo; after a prediction, that is two stages in one."""
        asked_at = self.path.place(StageName.PREDICTION) if predict else ""
        how = DemoOptions(
            about=self.path.concept.id,
            predict=predict,
            step=True,
            asked_at=asked_at,
            run_at=self.path.place(StageName.DEMO),
        )
        outcome = self.run_demo(link, how)
        self._look_again()
        if outcome is None:
            return
        if predict and not outcome.was_predicted and self._is_current(StageName.PREDICTION):
            self._save(StageName.PREDICTION, StageState.SKIPPED)
        if outcome.ended_well:
            self._save(StageName.DEMO, StageState.DONE)
        else:
            self.note = "The demo did not run to its end; its stage stays open."

    def ask_cards(self) -> None:
        from ddpquiz.learning.study_choice import StudyChoice  # the lesson does not wait for these two
        from ddpquiz.terminal.sittings.study_screen import ask_cards

        choice = StudyChoice(concept=[self.path.concept.id], every=True, taught=True)
        ask_cards(self._stage(StageName.CARDS), choice, console())

    def ask_questions(self, count: int) -> None:
        from ddpquiz.terminal.sittings.quiz_screen import QuizChoice, ask_questions  # the lesson does not wait for it

        choice = QuizChoice(concept=[self.path.concept.id], count=count)
        ask_questions(self._stage(StageName.QUESTIONS), choice, console())

    def test_lesson(self) -> None:
        from ddpquiz.terminal.sittings.quiz_screen import QuizChoice, ask_questions  # the lesson does not wait for it

        choice = QuizChoice(concept=[self.path.concept.id])
        ask_questions(replace(self.context, back_to="stages"), choice, console(), taught=True)

    def _stage(self, stage: StageName) -> SittingContext:
        return replace(self.context, place=self.path.place(stage), back_to="stages")

    def _visit(self, run: Callable[[], object]) -> None:
        self._leave(run)
        self._look_again()

    def _save(self, stage: StageName, state: StageState) -> None:
        self.context.progress.stage(f"{self.path.concept.id}/{stage}", state, self.context.clock())
        self._look_again()

    def _look_again(self) -> None:
        self.path = path_of(self.context, self.path.concept)
        self._visits += 1

    def _next_concept(self) -> None:
        history, here = history_of(self.context), self.path.concept
        others = [concept for concept in route(self.context.catalog, history) if concept is not here]
        if following := next_path(others, self.context.catalog.labs, history):
            self._go_to(following.concept)
        else:
            self.note = "You have finished all other concepts."

    def _is_current(self, stage: StageName) -> bool:
        return self.path.current is not None and self.path.current.stage is stage

    def summary(self) -> RenderableType:
        """Draw how to go on, unless the home screen does that."""
        if self.context.back_to:
            return Group()
        name, now = self.path.concept.id, self.path.current
        if now:
            return prose(f"Next is stage {self.path.position}. Go on with `ddpquiz learn {name}`.")
        return prose(f"You have finished {name}. `ddpquiz learn` goes on with the next one.")


def path_of(context: SittingContext, concept: Concept) -> GuidedPath:
    """How far the path through a concept is now."""
    return guided_path(concept, context.catalog.labs_about(concept.id), history_of(context))


def _begun_today(context: SittingContext) -> int:
    """How many new cards were begun today."""
    return begun(context.progress.memories(), study_day(context.clock()))


def _able(concept: Concept) -> str:
    """What a learner who has gone through a lesson can do now."""
    able = concept.able.removesuffix(".")
    return f"You can now {able}." if able else f"You can now explain this: {concept.idea}"


def _missed(count: int) -> str:
    """What there is to do about the questions of a lesson whose last answers were not right."""
    return (
        f"You did not get {plural(count, 'question')} of this lesson right the last time. Press t for questions about "
        "the lesson, or 1 to go through it again."
    )


def _coming_back(context: SittingContext, path: GuidedPath) -> str:
    """What of a lesson that the learner has gone through comes back next, and when."""
    concept, day = path.concept, study_day(context.clock())
    hidden, memories = context.progress.hidden(day), context.progress.memories(concept.id)
    cards = [card.key for card in concept.taught_cards if card.key not in hidden]
    new = sum(key not in memories or memories[key].first is None for key in cards)
    ahead = Counter(max(0, (memories[key].due - day).days) for key in cards if key in memories)
    if new:
        key, them, today = path.number(StageName.CARDS), "it" if new == 1 else "them", _begun_today(context)
        so_far = f"; you have begun {today} today" if today else ""
        return (
            f"This lesson has {plural(new, 'new card')}. Press {key} to recall {them} now, or leave {them} to "
            f"`ddpquiz study`, which shows {NEW_A_DAY} new cards a day{so_far}."
        )
    if ahead:
        (first, count), *others = sorted(ahead.items())
        later = [f"{count} {_on(day, days)}" for days, count in others[:2]]
        come = plural(count, "card comes", "cards come")
        return f"{', '.join([f'{come} back {_on(day, first)}', *later])}, in `ddpquiz study`."
    return "`ddpquiz study` brings its cards back, each just before you would forget it."


def _on(day: date, days: int) -> str:
    """The day that comes so many days after another."""
    return "today" if not days else f"on {day + timedelta(days):%A}" if days <= 7 else f"in {days} days"


def stages(path: GuidedPath, following: PathStage | None) -> RenderableType:
    """Draw the stages of a path: how far each is, what it consists of, and which one enter opens."""
    rows = []
    for number, each in enumerate(path.stages, 1):
        word = "▸ next" if each is following else _WORDS[each.state]
        name = Text(f"{number} {each.stage}", style="key" if each is following else "")
        rows.append((name, Text(word, style="good" if each.state is StageState.DONE else ""), Text(_about(path, each))))
    return columns(rows)


def _shown(folder: Path) -> str:
    """A folder as a shell may write it."""
    home = Path(os.path.expanduser("~"))  # noqa: PTH111  # it does not raise where there is no home
    return f"~/{folder.name}" if folder.parent == home else str(folder)


def _about(path: GuidedPath, each: PathStage) -> str:
    link, lab = path.demo, path.lab
    match each.stage:
        case StageName.LESSON if each.count:
            left = f", {each.left} left" if 0 < each.left < each.count else ""
            more = "; m reads more" if path.concept.more and each.state is StageState.DONE else ""
            return f"{plural(each.count, 'step')} to read, answer and run{left}{more}"
        case StageName.LESSON:
            return "why, how, real commands, mistakes"
        case StageName.PREDICTION if link:
            return f"what will the demo {link.run} show?"
        case StageName.DEMO if link:
            return f"{link.run}, on {plural(link.ranks, 'rank') if link.ranks else 'real ranks'}"
        case StageName.CARDS:
            left = f", {each.left} not seen yet" if 0 < each.left < each.count else ""
            return f"{plural(each.count, 'card')}{left}"
        case StageName.QUESTIONS:
            left = f", {each.left} left" if 0 < each.left < each.count else ""
            return f"{plural(each.count, 'question')}{left}"
        case StageName.LAB if lab:
            built = f"{each.count - each.left} of {each.count} passed; another: " if 0 < each.left < each.count else ""
            return plain(f"{built}{lab.title}, about {lab.minutes} minutes, in {_shown(own_labs_dir())}/")
    return ""
