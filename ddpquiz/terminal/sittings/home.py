"""What `ddpquiz` shows without a command: where the learner stands and what to do next, with a key for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rich.console import Group
from rich.text import Text

from ddpquiz.learning.mastery import Label
from ddpquiz.learning.standing import NEW_A_DAY, advise
from ddpquiz.terminal.kit.hotkeys import HELP, QUIT, Hotkey
from ddpquiz.terminal.kit.layout import columns, section
from ddpquiz.terminal.kit.style import plain, prose
from ddpquiz.terminal.pages.stats import counted, streak
from ddpquiz.terminal.sittings import card_view
from ddpquiz.terminal.sittings.card_view import forecast
from ddpquiz.terminal.sittings.sitting import Desk, SittingScreen, note_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from rich.console import RenderableType

    from ddpquiz.curriculum.concept import Concept
    from ddpquiz.learning.standing import Advice, Standing

WELCOME = (
    "ddpquiz teaches distributed training: cards to recall, questions to answer, and demos that run real ranks here. "
    "What you learn comes back just before you would forget it, and every answer is kept at once. "
    "Whatever an answer claims, you can run it: press `d` for the demo and `p` for the proof."
)
COMMANDS = (
    ("study", "recall cards, each just before you would forget it"),
    ("test", "questions at three levels, each with the reason why"),
    ("explain", "say it in your own words, and see which points you made"),
    ("demo", "run a demo on real ranks, live"),
    ("learn", "read the lesson of a concept"),
    ("list, search, show", "what there is to learn"),
    ("prove", "run the proof behind an answer"),
    ("run", "run a torchrun script of your own, watched"),
    ("stats", "what you recall, and how strong you are"),
    ("doctor", "look whether everything works on this machine"),
)
FIRST = Hotkey("enter", "first card", "begin with the first card")
STUDY = Hotkey("s", "study", "recall the cards that are due, then new ones")
AHEAD = Hotkey("s", "study ahead", "go over cards that are not due; their schedule stays as it is")
STATS = Hotkey("i", "stats", "what you recall, what comes due, how strong you are")
READ_ON = Hotkey("space", "next page", "go on to the next screenful (page down does it too)")
BACK = Hotkey("esc", "back", "back to the overview (q does it too)")
_TRACKS = 5  # that are shown


class HomeDoors(Protocol):
    """Where the keys lead; `study` and `test` have the terminal to themselves, and may raise UserError."""

    def study(self, *, ahead: bool, new: int) -> object:
        """Sit down with cards: those that are due and new ones, so many a day, or cards `ahead` of their time."""

    def test(self, concept: Concept | None) -> object:
        """Sit down with questions about a concept, or about all of them."""

    def lesson(self, concept: Concept) -> RenderableType:
        """Draw the lesson of a concept."""

    def stats(self) -> RenderableType:
        """Draw the statistics."""


class Home(SittingScreen):
    """A learner who decides what to do; what they do changes where they stand, which `look` finds out anew."""

    def __init__(self, desk: Desk, look: Callable[[], Standing], rooms: HomeDoors) -> None:
        super().__init__(desk)
        self._look = look
        self._rooms = rooms
        self._page: RenderableType | None = None
        self._now = look()
        self._visits = 0
        self._due_was_told = False  # by the sitting that the learner came back from

    @property
    def scene(self) -> Hashable:
        """The page, or the visit that the learner came back from."""
        return self._visits, self._page is None

    @property
    def reading(self) -> bool:
        """Whether the lesson or the statistics are read."""
        return self._page is not None

    @property
    def over(self) -> bool:
        """Home is never over."""
        return False

    def body(self) -> RenderableType:
        """Draw what is read, or where the learner stands."""
        return self._page or Group(standing(self._now), Text(), *note_lines(self.note))

    def keys(self) -> list[Hotkey]:
        """Return the keys that work now, the best first."""
        if self._page:
            return [READ_ON, BACK]
        now, demo = self._now, self.demo_of(self._subject.id if self._subject else None)
        study = STUDY if now.due or now.again or now.new_today else AHEAD if now.seen else None
        lesson = self._subject
        return [
            *([FIRST] if now.fresh else []),
            *([study] if study else []),
            *([card_view.more(now.more)] if now.more else []),
            self._test_key(),
            *([Hotkey("l", "learn", f'read about "{lesson.title}", {self._reason}')] if lesson else []),
            *([Hotkey("d", "demo", f"run `{demo.run}` on real ranks")] if demo else []),
            *([] if now.fresh else [STATS]),
            HELP,
            QUIT,
        ]

    def press(self, key: str) -> None:
        """Take a key."""
        if self._page:
            self._page = None if key in ("escape", QUIT.key) else self._page
            return
        known = {hotkey.key for hotkey in self.keys()}
        match key:
            case "q":
                self.left = True
            case "enter" | "space" if self._now.fresh:
                self._study(NEW_A_DAY)
            case "s" if "s" in known:
                self._study(NEW_A_DAY, ahead=STUDY not in self.keys())
            case "n" if "n" in known:
                self._study(self._now.begun + self._now.more)
            case "t":
                self._visit(lambda: self._rooms.test(self._now.next_concept))
            case "l" if self._subject:
                self._page = self._rooms.lesson(self._subject)
            case "d" if "d" in known and self._subject:
                self.run_demo(self._subject.id)
                self._visits += 1
            case "i" if not self._now.fresh:
                self._page = self._rooms.stats()

    def summary(self) -> RenderableType:
        """Say what comes next time, unless a sitting has just said it."""
        if self._now.fresh:
            return prose("You have not begun; `ddpquiz study` does.")
        if self._due_was_told:
            return Group()
        return prose(f"{_due(self._now)} Due in the next seven days: {forecast(self._now.soon, self._now.day)}.")

    def spoken(self) -> RenderableType:
        """Draw where the learner stands, for a terminal that only goes down."""
        return page(self._now)

    def handle_line(self, line: str) -> None:
        """Take a line."""
        self.handle_key(line)

    @property
    def _subject(self) -> Concept | None:
        """The concept that the learner should look at: the next one, or the weakest."""
        return self._now.next_concept or self._now.weakest

    @property
    def _reason(self) -> str:
        return "the next concept that you have not been tested on" if self._now.next_concept else "your weakest concept"

    def _test_key(self) -> Hotkey:
        if concept := self._now.next_concept:
            what = f'ten questions about "{concept.title}", {self._reason}; `ddpquiz test` mixes all concepts'
        else:
            what = "ten questions about all concepts; `ddpquiz test CONCEPT` asks about one alone"
        return Hotkey("t", "test", what)

    def _study(self, new: int, *, ahead: bool = False) -> None:
        self._visit(lambda: self._rooms.study(ahead=ahead, new=new))
        self._due_was_told = not self.note

    def _visit(self, run: Callable[[], object]) -> None:
        self._leave(run)
        self._due_was_told = False
        self._now = self._look()
        self._visits += 1


def standing(now: Standing) -> RenderableType:
    """Draw where the learner stands, and what to do next."""
    if now.fresh:
        return Group(Text("ddpquiz", style="head"), Text(), prose(WELCOME))
    return Group(Text("ddpquiz", style="head"), Text(), _figures(now), *section("Next", advice(advise(now))))


def page(now: Standing) -> Group:
    """Draw the page for a pipe: where the learner stands, what to do next, and the commands."""
    rows = ((Text(f"ddpquiz {command}", style="code"), Text(what)) for command, what in COMMANDS)
    first = section("Next", advice(advise(now))) if now.fresh else []
    return Group(standing(now), *first, *section("Commands", columns(rows)))


def advice(found: Sequence[Advice]) -> RenderableType:
    """Draw commands with the reasons to run them."""
    return columns((Text(plain(one.command), style="code"), Text(plain(one.why))) for one in found)


def _figures(now: Standing) -> RenderableType:
    rows = [
        ("Due", _due(now)),
        ("New", _new(now)),
        ("Coming up", f"in the next seven days: {forecast(now.soon, now.day)}"),
        ("Streak", streak(now.streak)),
    ]
    if now.weakest and now.weakness:
        rows.append(("Weakest", f"{now.weakest.title} ({now.weakest.id}): {now.weakness.short}"))
    elif now.tested and not any(count for label, count in now.labels.items() if label is not Label.UNKNOWN):
        rows.append(("Weakest", "unknown until some more answers; ddpquiz test CONCEPT asks about one alone"))
    lines = columns((Text(name, style="quiet"), Text(plain(text))) for name, text in rows)
    return Group(lines, *(section("Tracks, the weakest first", _tracks(now)) if now.tracks else []))


def _tracks(now: Standing) -> RenderableType:
    def told_of(labels: dict[Label, int]) -> str:
        return ", ".join(f"{labels[label]} {label}" for label in Label if labels[label])

    rows = [(Text(plain(one.track)), Text(told_of(one.labels), style="quiet")) for one in now.tracks[:_TRACKS]]
    more = len(now.tracks) - _TRACKS
    return Group(
        columns(rows), *([Text(f"{counted(more, 'more track')}, stronger", style="quiet")] if more > 0 else [])
    )


def _new(now: Standing) -> str:
    if not now.new:
        return "none left"
    today = f"{now.new_today} for today" if now.new_today else f"today's {now.begun} are done"
    return f"{today}, {counted(now.new, 'card')} not seen yet"


def _due(now: Standing) -> str:
    again = f"{now.again if now.due else counted(now.again, 'card')} coming again" if now.again else ""
    due = f"{counted(now.due, 'card')} due now" if now.due else "" if again else "Nothing is due now"
    return f"{', '.join(filter(None, (due, again)))}."
