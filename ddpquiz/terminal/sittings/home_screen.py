"""The home screen, and the page for a pipe: the learner's standing, and what to do next."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace

from rich.console import Console, Group, RenderableType
from rich.text import Text

from ddpquiz.curriculum.concept import Concept, DemoLink
from ddpquiz.learning.mastery import Label
from ddpquiz.learning.schedule import NEW_A_DAY, study_day
from ddpquiz.learning.standing import Act, Advice, Standing, TrackStrength, advise
from ddpquiz.learning.statistics import statistics
from ddpquiz.learning.study_choice import StudyChoice
from ddpquiz.plural import plural
from ddpquiz.terminal.kit.key_screen import GOES_BACK, HELP, QUIT, Hotkey
from ddpquiz.terminal.kit.layout import columns, section, show
from ddpquiz.terminal.kit.style import console, plain, prose
from ddpquiz.terminal.pages.stats import Stats, streak
from ddpquiz.terminal.sittings.look import look
from ddpquiz.terminal.sittings.path_screen import PathScreen
from ddpquiz.terminal.sittings.rank_runner import DemoOptions
from ddpquiz.terminal.sittings.sitting import LOOK, SittingContext, SittingScreen, run_sitting
from ddpquiz.terminal.sittings.study_screen import ask_cards, forecast, more_key

_FIRST_CONCEPT = "all-reduce-ring"  # whose demo `d` runs for a learner who has done nothing yet
_STUDY = Hotkey("s", "study", "recall the cards that are due, then new ones")
_LESSONS = Hotkey("a", "lessons", "see all lessons and how far you are, and open one of them")
AHEAD = Hotkey("s", "study ahead", "go over cards that are not due; their schedule does not change")
_STATS = Hotkey("i", "stats", "see what you recall, which cards are due soon, and what you know well")
_CLOSE = Hotkey("esc", "back", "back to the overview (or q, backspace)")
_KEYS = {Act.STUDY: "s", Act.LEARN: "l", Act.TEST: "t", Act.MORE: "n"}
_BAR = 20  # columns of the core route
WELCOME = (
    "ddpquiz teaches distributed training: lessons that run on real ranks of this machine, questions, and cards that "
    "come back just before you would forget them. Every answer is saved at once."
)
COMMANDS = (
    ("learn", "go through a concept step by step, answer and run it, then recall its cards"),
    ("study", "recall cards, each just before you would forget it"),
    ("test", "answer questions at three levels, and read why each wrong answer is wrong"),
    ("explain", "explain a concept in your own words, and check your points"),
    ("demo", "run a demo on real ranks, live"),
    ("lab", "write a distributed program, and have it checked on real ranks"),
    ("list, search, show", "see what there is to learn"),
    ("prove", "run the proof behind an answer"),
    ("run", "run your own torchrun script and watch it"),
    ("diagnose", "say why a job hangs or failed, from its logs"),
    ("stats", "see what you recall, and what you know well"),
    ("doctor", "check that everything works on this machine"),
)
_TRACKS = 5  # that are shown


Rows = Sequence[tuple[str, Text]]  # a name, and what is said of it


class Home(SittingScreen):
    """The overview, and the pages opened from it: a lesson or the statistics."""

    def __init__(self, context: SittingContext) -> None:
        super().__init__(context)
        self._page: RenderableType | None = None
        self._opened_by = ""  # the key that opened the page
        self._now = self.look()
        self._visits = 0
        self._due_was_shown = False  # by the sitting that the learner came back from

    @property
    def scene(self) -> Hashable:
        return self._visits, self._page is None

    @property
    def reading(self) -> bool:
        return self._page is not None

    @property
    def over(self) -> bool:
        return False

    def body(self) -> RenderableType:
        if self._page:
            return self._page
        best, *others = advise(self._now)
        following = [("Next", Text.assemble(("enter", "key"), f"  {plain(best.what)}\n", (plain(best.why), "quiet")))]
        keyed = {_KEYS[one.act]: one.what for one in others if one.act is not best.act}
        if keyed and not self._now.fresh:
            following.append(
                ("Also", _in_a_line((Text(key, style="key"), Text(plain(what))) for key, what in keyed.items()))
            )
        return Group(standing(self._now, following), Text())

    def keys(self) -> list[Hotkey]:
        if self._page:
            return [replace(_CLOSE, also=(*GOES_BACK, self._opened_by)), HELP]
        now, demo = self._now, self._demo
        study = _STUDY if now.due or now.again or now.new_today else AHEAD if now.seen else None
        untested = now.next_concept
        about = f'"{untested.title}", which you have not been tested on' if untested else "what you have begun"
        keys = [
            self._next_key(),
            study,
            replace(more_key(now.more), does="new cards") if now.more else None,
            self._lesson_key(),
            _LESSONS,
            Hotkey("t", "test", f"questions about {about}"),
            Hotkey("d", "demo", f"run the demo `{demo.run}` on real ranks") if demo else None,
            Hotkey("b", "lab", f'build the lab "{now.open_labs[0].title}"') if now.open_labs else None,
            None if now.fresh else _STATS,
        ]
        return [*filter(None, keys), LOOK, HELP, QUIT]

    def press(self, key: str) -> None:
        if self._page:
            self._page = None if key in (*GOES_BACK, self._opened_by) else self._page
            return
        self._opened_by = key
        known = {hotkey.key for hotkey in self.keys()}
        match key:
            case "q":
                self.left = True
            case "enter" | "space" if self._best.act is not Act.LEARN:
                self.press(_KEYS[self._best.act])
            case "enter" | "space" | "l":
                self._learn()
            case "a":
                self._visit(self.choose_lesson)
            case "s" if "s" in known:
                self._study(NEW_A_DAY, ahead=_STUDY not in self.keys())
            case "n" if "n" in known:
                self._study(self._now.begun + self._now.more)
            case "t":
                self._visit(lambda: self.ask_questions(self._now.next_concept))
            case "b" if "b" in known:
                self._visit(lambda: self.context.open_lab(self._now.open_labs[0].id, ""))
            case _:
                self._press_what_shows(key)

    def _press_what_shows(self, key: str) -> None:
        """Obey a key that shows something besides lessons, cards and questions."""
        match key:
            case "/":
                self.look_up()
            case "d" if self._demo:
                self.run_demo(self._demo, DemoOptions(step=self._now.fresh))
                self._look_again()
            case "i" if not self._now.fresh:
                self._page = self._stats()

    def summary(self) -> RenderableType:
        """Draw what comes next time, unless the last sitting has just shown it."""
        if self._now.fresh and self._visits:
            return prose("Go on with `ddpquiz learn`; this screen, `ddpquiz`, shows what else there is.")
        if self._now.fresh:
            return prose("You have not begun yet: `ddpquiz learn` opens the first lesson.")
        if self._due_was_shown:
            return Group()
        return prose(f"{due(self._now)} Due in the next seven days: {forecast(self._now.soon, self._now.day)}.")

    @property
    def _demo(self) -> DemoLink | None:
        """The demo of the first concept for a new learner, else of the weakest or the next concept."""
        names = [_FIRST_CONCEPT] * self._now.fresh
        on = self._now.path.concept if self._now.path else None
        names += [one.id for one in (self._now.weakest, self._now.next_concept, on) if one]
        return next((link for name in names if (link := self.demo_of(name))), None)

    @property
    def _best(self) -> Advice:
        """What is best done next."""
        return advise(self._now)[0]

    def _next_key(self) -> Hotkey:
        best, does = self._best, "begin" if self._now.fresh else "go on"
        return Hotkey(
            "enter", does, f"{best.what}: {best.why}", also=("space", *(["l"] if best.act is Act.LEARN else []))
        )

    def _lesson_key(self) -> Hotkey | None:
        """The key of the lesson that comes next, unless enter opens it."""
        lesson = next((one for one in advise(self._now)[1:] if one.act is Act.LEARN), None)
        return Hotkey("l", "lesson", lesson.what) if lesson else None

    def _learn(self) -> None:
        """Open the lesson that comes next, if there is one."""
        if concept := next((one.concept for one in advise(self._now) if one.act is Act.LEARN), None):
            self._visit(lambda: self.learn(concept))

    def _study(self, new: int, *, ahead: bool = False) -> None:
        self._visit(lambda: self.ask_cards(StudyChoice(cram=ahead, new=new)))
        self._due_was_shown = not self.note

    def _visit(self, run: Callable[[], object]) -> None:
        self._leave(run)
        self._due_was_shown = False
        self._look_again()

    @property
    def first_lesson(self) -> Concept | None:
        """The concept that a learner begins with who has done nothing yet."""
        return self._now.path.concept if self._now.fresh and self._now.path else None

    def look(self) -> Standing:
        return look(self.context)

    def ask_cards(self, choice: StudyChoice) -> None:
        ask_cards(self._inside(), choice, console())

    def learn(self, concept: Concept) -> None:
        run_sitting(PathScreen(self._inside(), concept), console())

    def choose_lesson(self) -> None:
        from ddpquiz.terminal.sittings.lesson_list import LessonList  # the first screen does not wait for it

        run_sitting(LessonList(self._inside()), console())

    def ask_questions(self, concept: Concept | None) -> None:
        from ddpquiz.terminal.sittings.quiz_screen import (  # the first screen does not wait for it
            QuizChoice,
            ask_questions,
        )

        choice = QuizChoice(concept=[concept.id] if concept else None)
        ask_questions(self._inside(), choice, console(), taught=True)

    def _inside(self) -> SittingContext:
        return replace(self.context, back_to="home")

    def _stats(self) -> RenderableType:
        day = study_day(self.context.clock())
        return Stats(statistics(self.context.progress, self.context.catalog.concepts, day))

    def _look_again(self) -> None:
        self._now = self.look()
        self._visits += 1


def visit_home(context: SittingContext, console: Console) -> None:
    """Show home until the learner leaves it; who has done nothing yet meets four ranks first."""
    screen = Home(context)
    if first := screen.first_lesson:
        from ddpquiz.terminal.sittings.first_screen import FirstContact  # only the first start needs it

        contact = FirstContact(context.ranks, first.title)
        contact.show(console)
        if contact.quits:
            show(console, screen.summary())
            return
        if contact.goes_on:
            screen.press("enter")
    run_sitting(screen, console)


def standing(now: Standing, following: Rows) -> RenderableType:
    """Draw where the learner stands; `following` says what to do next."""
    head: list[RenderableType] = [Text("ddpquiz", style="head"), Text()]
    if now.fresh:
        head += [prose(WELCOME), Text()]
    core = [("Core route", _core(now))] if now.core else []
    parts = [*head, _named([*core, *following])]
    return Group(*parts, *([] if now.fresh else [Text(), _figures(now)]))


def page(now: Standing) -> Group:
    """Draw the page for a pipe: where the learner stands, what to do next, and the commands."""
    best, *others = (
        (
            Text(plain(one.command), style="code"),
            Text(plain(f'"{one.concept.title}": {one.why}' if one.concept else one.why)),
        )
        for one in advise(now)
    )
    following = [("Next", _in_a_line([best]))]
    if others and not now.fresh:
        following.append(("Also", _in_a_line((command,) for command, _ in others)))
    rows = ((Text(f"ddpquiz {command}", style="code"), Text(what)) for command, what in COMMANDS)
    return Group(standing(now, following), *section("Commands", columns(rows)))


def _named(rows: Rows) -> RenderableType:
    return columns((Text(f"{name:10}", style="quiet"), text) for name, text in rows)


def _in_a_line(parts: Iterable[Sequence[Text]]) -> Text:
    """Draw parts, each of one or two texts, one after the other."""
    return Text(" · ", style="quiet").join(
        Text("  " if len(part) > 1 and part[0].style == "code" else " ").join(part) for part in parts
    )


def _core(now: Standing) -> Text:
    """Draw how much of the core route was read."""
    done = max(_BAR * now.core_read // now.core, bool(now.core_read))  # the first lesson shows, too
    said = f"  {now.core_read} of {plural(now.core, 'lesson')}"
    return Text.assemble(("━" * done, "good"), ("─" * (_BAR - done), "quiet"), said)


def _figures(now: Standing) -> RenderableType:
    rows = [
        ("Due", due(now)),
        ("New", _new(now)),
        ("Coming up", f"in the next seven days: {forecast(now.soon, now.day)}"),
        ("Streak", streak(now.streak)),
    ]
    if now.labs or now.open_labs or now.lesson_with_lab:
        rows.append(("Labs", _labs(now)))
    if now.weakest and now.weakness:
        based = f"{now.weakness.short}, based on {plural(now.weakness.answers, 'answer')}"
        rows.append(("Weakest", f"{now.weakest.title} ({now.weakest.id}): {based}"))
    elif now.tested and not any(count for label, count in now.labels.items() if label is not Label.UNKNOWN):
        rows.append(("Weakest", "not known until a test says so; answers in lessons do not count"))
    lines = _named([(name, Text(plain(text))) for name, text in rows])
    judged = [one for one in now.tracks if one.labels.total() > one.labels[Label.UNKNOWN]]
    return Group(lines, *(section("Tracks, the weakest first", _tracks(judged)) if judged else []))


def _labs(now: Standing) -> str:
    """How many labs were passed, and the first of the open ones."""
    parts: list[str] = []
    if now.labs:
        parts.append(f"{now.labs} passed" + (f", {plural(now.stars, 'star')}" if now.stars else ""))
    if now.open_labs:
        parts.append(f'{len(now.open_labs)} open; the first is "{now.open_labs[0].title}"')
    elif now.lesson_with_lab:
        parts.append(f'the next one comes after the lesson "{now.lesson_with_lab.title}"')
    return "; ".join(parts)


def _tracks(tracks: Sequence[TrackStrength]) -> RenderableType:
    def counts(labels: Counter[Label]) -> str:
        words = {Label.UNKNOWN: "without a verdict"}
        each = ", ".join(f"{labels[label]} {words.get(label, label)}" for label in Label if labels[label])
        return f"{plural(labels.total(), 'concept')}: {each}"

    rows = [(Text(plain(one.track)), Text(counts(one.labels), style="quiet")) for one in tracks[:_TRACKS]]
    more = len(tracks) - _TRACKS
    return Group(columns(rows), *([Text(f"{plural(more, 'more track')}, stronger", style="quiet")] if more > 0 else []))


def _new(now: Standing) -> str:
    if not now.new:
        return "none left in the lessons that you have begun"
    if now.new_today:
        return f"{plural(now.new_today, 'card')} to learn today, from the lessons that you have begun"
    left = "1 more is left" if now.new == 1 else f"{now.new} more are left"
    return f"{plural(now.begun, 'card')} begun today, enough for one day; {left}"


def due(now: Standing) -> str:
    """How many cards are due now, and how many come again today."""
    again = f"{now.again if now.due else plural(now.again, 'card')} to repeat" if now.again else ""
    due = f"{plural(now.due, 'card')} due now" if now.due else "" if again else "Nothing is due now"
    return f"{', '.join(filter(None, (due, again)))}."
