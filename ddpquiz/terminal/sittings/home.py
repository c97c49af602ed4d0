"""The home screen: where the learner stands, and a key for each thing to do next."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Protocol

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.curriculum.concept import Concept, DemoLink
from ddpquiz.learning.standing import NEW_A_DAY, Standing, advise
from ddpquiz.terminal.kit.hotkeys import GOES_BACK, HELP, QUIT, Hotkey
from ddpquiz.terminal.kit.layout import columns, section
from ddpquiz.terminal.kit.style import plain, prose
from ddpquiz.terminal.sittings import card_view
from ddpquiz.terminal.sittings.card_view import forecast
from ddpquiz.terminal.sittings.sitting import Desk, SittingScreen, note_lines
from ddpquiz.terminal.sittings.standing_view import due, page, standing

FIRST_CONCEPT = "all-reduce-ring"  # whose demo `d` runs for a learner who has done nothing yet
FIRST = Hotkey("enter", "first card", "begin with the first card")
STUDY = Hotkey("s", "study", "recall the cards that are due, then new ones")
AHEAD = Hotkey("s", "study ahead", "go over cards that are not due; their schedule does not change")
STATS = Hotkey("i", "stats", "see what you recall, what comes due, and how strong you are")
READ_ON = Hotkey("space", "next page", "scroll to the next screenful (page down does it too)")
CLOSE = Hotkey("esc", "back", "back to the overview (q and backspace do it too)")
_KEYS = {"study": "s", "learn": "l", "test": "t"}  # by command


class HomeActions(Protocol):
    """What the keys start; `study` and `test` have the terminal to themselves, and may raise UserError."""

    def study(self, *, ahead: bool, new: int) -> object:
        """Study cards: due ones and up to `new` new ones a day, or with `ahead` cards that are not due."""

    def test(self, concept: Concept | None) -> object:
        """Ask questions about a concept, or about all of them."""

    def lesson(self, concept: Concept) -> RenderableType:
        """Draw the lesson of a concept."""

    def stats(self) -> RenderableType:
        """Draw the statistics."""


class Home(SittingScreen):
    """The overview, and the lesson or the statistics above it; `look` finds out anew where the learner stands."""

    def __init__(self, desk: Desk, look: Callable[[], Standing], actions: HomeActions) -> None:
        super().__init__(desk)
        self._look = look
        self._actions = actions
        self._page: RenderableType | None = None
        self._opened_by = ""  # the key that opened the page
        self._now = look()
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
        advised = [] if self._now.fresh else section("Next", self._advice())
        return Group(standing(self._now), *advised, Text(), *note_lines(self.note))

    def keys(self) -> list[Hotkey]:
        if self._page:
            return [READ_ON, CLOSE]
        now, subject, demo = self._now, self._subject, self._demo
        study = STUDY if now.due or now.again or now.new_today else AHEAD if now.seen else None
        return [
            *([FIRST] if now.fresh else []),
            *([study] if study else []),
            *([card_view.more(now.more)] if now.more else []),
            self._test_key(),
            *([Hotkey("l", "learn", f'read about "{subject.title}", {self._reason}')] if subject else []),
            *(
                [Hotkey("d", "demo", f"predict what the demo `{demo.run}` shows, and run it on real ranks")]
                if demo
                else []
            ),
            *([] if now.fresh else [STATS]),
            HELP,
            QUIT,
        ]

    def press(self, key: str) -> None:
        if self._page:
            self._page = None if key in (*GOES_BACK, self._opened_by) else self._page
            return
        self._opened_by = key
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
                self._visit(lambda: self._actions.test(self._now.next_concept))
            case "l" if self._subject:
                self._page = self._actions.lesson(self._subject)
            case "d" if self._demo:
                self.run_demo(self._demo, step=self._now.fresh)
                self._look_again()
            case "i" if not self._now.fresh:
                self._page = self._actions.stats()

    def summary(self) -> RenderableType:
        """Draw what comes next time, unless the last sitting has just shown it."""
        if self._now.fresh:
            return prose("You have not begun yet: `ddpquiz study` shows the first card.")
        if self._due_was_shown:
            return Group()
        return prose(f"{due(self._now)} Due in the next seven days: {forecast(self._now.soon, self._now.day)}.")

    def new_lines(self) -> RenderableType:
        return page(self._now)

    def handle_line(self, line: str) -> None:
        self.handle_key(line)

    @property
    def _subject(self) -> Concept | None:
        return self._now.weakest or self._now.next_concept

    @property
    def _reason(self) -> str:
        return "your weakest concept" if self._now.weakest else "the next concept that you have not been tested on"

    @property
    def _demo(self) -> DemoLink | None:
        """The demo of the first concept to see, of the weakest or of the next one."""
        names = [FIRST_CONCEPT] * self._now.fresh
        names += [one.id for one in (self._now.weakest, self._now.next_concept) if one]
        return next((link for name in names if (link := self.demo_of(name))), None)

    def _test_key(self) -> Hotkey:
        if concept := self._now.next_concept:
            return Hotkey("t", "test", f'ten questions about "{concept.title}", which you have not been tested on')
        return Hotkey("t", "test", "ten questions about all concepts")

    def _advice(self) -> RenderableType:
        rows = []
        for advice in advise(self._now):
            _, name, *rest = advice.command.split()
            key = "n" if "--new" in rest else _KEYS[name]
            title = self.desk.concepts[rest[0]].title if rest and rest[0] in self.desk.concepts else ""
            does = "study more" if key == "n" else f'{name} "{title}"' if title else name
            rows.append((Text(key, style="key"), Text(plain(f"{does}: {advice.why}"))))
        return columns(rows)

    def _study(self, new: int, *, ahead: bool = False) -> None:
        self._visit(lambda: self._actions.study(ahead=ahead, new=new))
        self._due_was_shown = not self.note

    def _visit(self, run: Callable[[], object]) -> None:
        self._leave(run)
        self._due_was_shown = False
        self._look_again()

    def _look_again(self) -> None:
        self._now = self._look()
        self._visits += 1
