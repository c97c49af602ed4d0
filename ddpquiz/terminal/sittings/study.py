"""A sitting with cards at the keyboard: keys or lines go in, cards come out, and each grade is kept at once."""

from __future__ import annotations

import random
from functools import cache
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.posed import pose
from ddpquiz.learning import deal, standing, study, study_summary
from ddpquiz.learning.schedule import Grade, study_day
from ddpquiz.learning.study import Hiding, Review, StudyAction
from ddpquiz.terminal.kit.hotkeys import DEMO, HELP, PROOF, QUIT, SOURCE, Hotkey
from ddpquiz.terminal.kit.style import prose
from ddpquiz.terminal.sittings import card_view
from ddpquiz.terminal.sittings.lookup import LOOK, Lookup
from ddpquiz.terminal.sittings.sitting import Desk, SittingScreen, note_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from datetime import datetime

    from rich.console import RenderableType

    from ddpquiz.curriculum.concept import Question
    from ddpquiz.learning.log_rows import Receipt

SHOW = Hotkey("space", "show the back", "turn the card over (enter does it too)")
GOOD = Hotkey("space", "good", "recalled, as usual (enter does it too)")
UNDO = Hotkey("u", "undo", "take back the last grade or skip, back to the start of the sitting if you like")
SKIP = Hotkey("s", "skip", "not in this sitting")
BURY = Hotkey("b", "bury", "not before tomorrow")
SUSPEND = Hotkey("x", "suspend", "never again, until `ddpquiz progress restore` brings it back")
GRADES = {
    Grade.AGAIN: "you did not know it; it comes again in this sitting",
    Grade.HARD: "you knew it, with trouble; it comes once more at the end of this sitting",
    Grade.GOOD: "you knew it",
    Grade.EASY: "you knew it without thinking; the days vary a little, so that cards do not all come back together",
}


class StudyScreen(SittingScreen):
    """One sitting with cards."""

    def __init__(
        self,
        desk: Desk,
        sitting: study.Sitting,
        *,
        weakest: Callable[[], str | None] = lambda: None,
        a_day: int = standing.NEW_A_DAY,
        welcome: bool = False,
        opening: str = "",
        go_on: str = "ddpquiz study",
    ) -> None:
        super().__init__(desk)
        self.sitting = sitting
        self.finding: Lookup | None = None
        self._receipts: list[Receipt | None] = []  # of what was done, in order; none where nothing was to be kept
        self._a_day = a_day  # new cards
        self._go_on = go_on  # the command that was given, without the number of new cards
        self._weakest = cache(weakest)  # known before this sitting; found out when it is told
        self._opening = [card_view.WELCOME] * welcome + [opening] * bool(opening)

    @property
    def scene(self) -> Hashable:
        """The card and its side, or what is read."""
        look = self.finding
        found = look and (look.open, look.answered, look.hits if look.open else ())
        return len(self.sitting.done), self.sitting.queue, self.sitting.shown, self.sitting.stopped, found

    @property
    def reading(self) -> bool:
        """Whether something that was looked up is read."""
        return self.finding is not None and self.finding.open

    @property
    def early(self) -> tuple[str, ...]:
        """The keys that count even when they were typed before a scene was painted; a letter may be text."""
        return tuple(key for key in super().early if len(key) > 1 or not self.finding)

    @property
    def over(self) -> bool:
        """Whether no card is left."""
        return self.sitting.card is None

    def body(self) -> RenderableType:
        """Draw the card, or what the sitting came to, or what is looked up."""
        if self.finding:
            return self.finding.body()
        if self.sitting.card is None:
            return Group(self.summary(), Text(), *note_lines(self.note))
        parts: list[RenderableType] = []
        if not self.sitting.previous and not self.sitting.shown:
            parts += [part for text in self._opening for part in (prose(text, "quiet"), Text())]
        parts += [self._where(), Text(self._about_last(), style="quiet"), Text()]
        parts += [card_view.front(self.sitting), Text()]
        if self.sitting.shown:
            parts += [card_view.back(self.sitting), Text()]
        return Group(*parts, *note_lines(self.note))

    def above_keys(self) -> list[RenderableType]:
        """Draw the buttons once the back is seen."""
        if self.finding:
            return self.finding.field()
        if self.sitting.card is None or not self.sitting.shown:
            return []
        if self.sitting.cram:
            return [card_view.buttons(dict.fromkeys(self.sitting.buttons))]
        return [card_view.buttons(self.sitting.preview(study_day(self.desk.clock())))]

    def keys(self) -> list[Hotkey]:
        """Return the keys that work now."""
        if self.finding:
            return self.finding.keys()
        undo = [UNDO] if self.sitting.previous else []
        demo = [DEMO] if self.demo_of(self._concept_to_run()) else []
        if (card := self.sitting.card) is None:
            more = [card_view.more(len(held))] if (held := self.sitting.deal.held) else []
            return [Hotkey("enter", "leave"), *more, *undo, *demo, LOOK, HELP]
        turn = GOOD if self.sitting.shown else SHOW
        proof = [PROOF] if self.sitting.shown and self._proof() else []
        source = [SOURCE] if card.source and self.sitting.shown else []
        flag = self.flag_key(card.key)
        usual = [*demo, *proof, SKIP] if self.sitting.shown else [SKIP, *demo]  # what was answered is seldom skipped
        return [turn, *undo, *usual, *source, flag, LOOK, BURY, SUSPEND, HELP, QUIT]

    def all_keys(self) -> list[Hotkey]:
        """Return the keys that work now, with the grades."""
        asked = self.sitting.card and self.sitting.shown and not self.finding
        grades = enumerate(self.sitting.buttons, 1) if asked else ()
        return [*(Hotkey(str(number), card_view.NAMES[grade], GRADES[grade]) for number, grade in grades), *self.keys()]

    def handle_key(self, key: str) -> None:
        """Take a key; words that are looked up take all characters, also those that are keys elsewhere."""
        if self.finding:
            self.note = ""
            self.finding = self.finding.key(key)
        else:
            super().handle_key(key)

    def press(self, key: str) -> None:
        """Take a key."""
        card = self.sitting.card
        match key:
            case "/":
                self.finding = Lookup(Catalog((), tuple(self.desk.concepts.values()), self.desk.sources))
            case "u":
                self._do(StudyAction.UNDO)
            case "d":
                self.run_demo(self._concept_to_run())
                self._do(StudyAction.BACK)
            case "n" if card is None:
                self._do(StudyAction.MORE)
            case "enter" | "q" | "escape" if card is None:  # space may be one tap too many
                self.left = True
            case _ if card is None:
                pass
            case "space" | "enter":
                self._do(Grade.GOOD if self.sitting.shown else StudyAction.SHOW)
            case "1" | "2" | "3" | "4" if int(key) <= len(self.sitting.buttons):
                self._do(self.sitting.buttons[int(key) - 1])
            case "s":
                self._do(StudyAction.SKIP)
            case "x":
                self._do(StudyAction.SUSPEND)
            case "b":
                self._do(StudyAction.BURY)
            case "p":
                self._prove()
            case "v" if self.sitting.shown:
                self.tell_source(card.source)
            case "f":
                self.flag(card.key)
            case "q":
                self._do(StudyAction.STOP)
                self.left = True

    def summary(self) -> RenderableType:
        """Draw what the sitting came to."""
        came_to = study_summary.sum_up(self.sitting)
        begun = standing.begun(self.sitting.memories, study_day(self.desk.clock()))
        if self.sitting.queue:
            held = [card_view.left(len(self.sitting.queue), self._command_to_go_on(begun), cram=self.sitting.cram)]
        else:
            held = card_view.held_back(self.sitting.deal, self._a_day, begun, self._go_on, cram=self.sitting.cram)
        found = self.desk.concepts.get(came_to.wanting or self._weakest() or "")
        wanting = (found.id, found.title) if found else None
        return card_view.summary(came_to, held, self._due(), wanting)

    def spoken(self) -> RenderableType:
        """Draw what is new, for a terminal that only goes down."""
        if self.finding:
            return self.finding.body()
        if self.sitting.shown:
            return Group(card_view.back(self.sitting), *self.above_keys())
        last = [Text(text) for text in self._opening if not self.sitting.previous] or [Text(self._about_last())]
        return Group(*filter(None, last), Text(), self._where(), card_view.front(self.sitting))

    def handle_line(self, line: str) -> None:
        """Take a line: the name of a key; an empty one turns the card. `/words` looks something up."""
        looking = self.finding is not None
        self.finding = None
        if line.startswith("/"):
            self.press("/")
            self.finding = self.finding and self.finding.spoken(line[1:])
        elif line or not looking:
            self.handle_key(line.lower() or "space")

    def _do(self, event: study.Event) -> None:
        """Do a step, and keep what it changed before anything else is shown."""
        now = self.desk.clock()
        after = study.step(self.sitting, event, now)
        added, taken = study.news(self.sitting, after)
        if added:
            self._receipts.append(self._keep(added, now))
        if taken and (receipt := self._receipts.pop()):
            self.desk.progress.undo(receipt, now)
        self.sitting = after

    def _keep(self, done: study.Done, now: datetime) -> Receipt | None:
        """Write what was done to the log; a grade given while cramming leaves the schedule as it is."""
        progress, card = self.desk.progress, done.card.key
        match done:
            case Review():
                return None if self.sitting.cram else progress.review(card, done.grade, now, done.took)
            case Hiding(act=StudyAction.SUSPEND):
                return progress.suspend(card, now)
            case _:
                return progress.bury(card, now)

    def _where(self) -> Text:
        return card_view.where(self.sitting, flagged=self.is_flagged(self.sitting.queue[0].key))

    def _about_last(self) -> str:
        before = self.sitting.previous
        if before is None or before.card is None or self.sitting.shown:
            return ""
        if stuck := self.sitting.stuck:
            shows = " · d shows it running" if self.demo_of(stuck.concept) else ""
            return f"forgotten often: set aside for today{shows} · u undo"
        return card_view.last_grade(self.sitting.last, cram=self.sitting.cram)

    def _concept_to_run(self) -> str | None:
        """Return the concept whose demo helps now: that of a card forgotten too often, else that on screen."""
        if self.sitting.card is None:
            return study_summary.sum_up(self.sitting).wanting or self._weakest()
        stuck = None if self.sitting.shown else self.sitting.stuck
        return (stuck or self.sitting.card).concept

    def _command_to_go_on(self, begun: int) -> str:
        """Return the command that deals the cards that are left; `begun` new cards were asked on this day."""
        fresh = sum(self.sitting.memory(card) is None for card in self.sitting.queue)
        a_day = max(self._a_day, begun + fresh)
        return self._go_on if a_day == standing.NEW_A_DAY else f"{self._go_on} --new {a_day}"

    def _due(self) -> str:
        """Say which cards are due now and soon, in the words and numbers of the home page."""
        day, hidden = (
            study_day(self.desk.clock()),
            {one.card.key for one in self.sitting.done if isinstance(one, Hiding)},
        )
        memories = {key: memory for key, memory in self.sitting.memories.items() if key not in hidden}
        soon = card_view.forecast(deal.due_soon(memories, day), day)
        graded = self.desk.progress.grades(day)  # not those of a cram, which the schedule does not know
        again = deal.coming_again(memories, graded)
        due = f"{deal.due_now(memories, day, graded)}{f', and {again} coming again' if again else ''}"
        return f"Due now: {due}. In the next seven days: {soon}."

    def _proof(self) -> Question | None:
        """Return the question whose proof shows what the card on screen says."""
        card = self.sitting.card
        concept = self.desk.concepts.get(card.concept) if card and card.proof else None
        return next((q for q in concept.questions if card and q.id == card.proof), None) if concept else None

    def _prove(self) -> None:
        question = self._proof()
        if question is None:
            self.note = "This card has no proof."
        elif not self.sitting.shown:
            self.note = "The proof would tell the back; turn the card over first."
        else:
            self.run_proof(pose(question, random.Random(0)))  # noqa: S311
            self._do(StudyAction.BACK)
