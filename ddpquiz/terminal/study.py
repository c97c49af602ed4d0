"""A sitting with cards at the keyboard: keys or lines go in, cards come out, and each grade is kept at once."""

from __future__ import annotations

import random
from functools import cache
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from ddpquiz.curriculum.pose import pose
from ddpquiz.learning import study
from ddpquiz.learning.schedule import Grade, study_day
from ddpquiz.learning.study import Act
from ddpquiz.terminal import cards
from ddpquiz.terminal.hotkeys import DEMO, FLAG, HELP, PROOF, QUIT, SOURCE, Hotkey
from ddpquiz.terminal.sitting import Desk, Seat, told
from ddpquiz.terminal.style import prose

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from rich.console import RenderableType

    from ddpquiz.curriculum.concept import Question
    from ddpquiz.learning.progress import Receipt

SHOW = Hotkey("space", "show the back", "turn the card over (enter does it too)")
GOOD = Hotkey("space", "good", "recalled, as usual (enter does it too)")
UNDO = Hotkey("u", "undo", "take the last grade or skip back, more than once if you like")
SKIP = Hotkey("s", "skip", "not in this sitting")
GRADES = {
    Grade.AGAIN: "you did not know it; it comes again in this sitting",
    Grade.HARD: "you knew it, with trouble",
    Grade.GOOD: "you knew it",
    Grade.EASY: "you knew it without thinking; the days vary a little, so that cards do not all come back together",
}


class Studying(Seat):
    """One sitting with cards."""

    def __init__(
        self,
        desk: Desk,
        sitting: study.Sitting,
        *,
        weakest: Callable[[], str | None] = lambda: None,
        welcome: bool = False,
    ) -> None:
        super().__init__(desk)
        self.sitting = sitting
        self._receipts: list[Receipt] = []  # of the reviews, in order
        self._weakest = cache(weakest)  # known before this sitting; found out when it is told
        self._welcome = welcome

    @property
    def scene(self) -> Hashable:
        """The card and its side."""
        return len(self.sitting.reviews), self.sitting.queue, self.sitting.shown, self.sitting.stopped

    @property
    def over(self) -> bool:
        """Whether no card is left."""
        return self.sitting.card is None

    def body(self) -> RenderableType:
        """Draw the card, or what the sitting came to."""
        if self.sitting.card is None:
            return Group(self.summary(), Text(), *told(self.note))
        parts: list[RenderableType] = []
        if self._welcome and not self.sitting.reviews and not self.sitting.shown:
            parts += [prose(cards.WELCOME, "quiet"), Text()]
        parts += [cards.where(self.sitting), Text(self._about_last(), style="quiet"), Text()]
        parts += [cards.front(self.sitting), Text()]
        if self.sitting.shown:
            parts += [cards.back(self.sitting), Text()]
        return Group(*parts, *told(self.note))

    def above_keys(self) -> list[RenderableType]:
        """Draw the buttons once the back is seen."""
        if self.sitting.card is None or not self.sitting.shown:
            return []
        return [cards.buttons(self.sitting.preview(study_day(self.desk.clock())))]

    def keys(self) -> list[Hotkey]:
        """Return the keys that work now."""
        undo = [UNDO] if self.sitting.previous else []
        demo = [DEMO] if self.demo_of(self._concept_to_run()) else []
        if (card := self.sitting.card) is None:
            return [Hotkey("enter", "leave"), *undo, *demo, HELP]
        turn = GOOD if self.sitting.shown else SHOW
        proof = [PROOF] if self.sitting.shown and self._proof() else []
        source = [SOURCE] if card.source and self.sitting.shown else []
        return [turn, *undo, SKIP, *demo, *proof, *source, FLAG, HELP, QUIT]

    def all_keys(self) -> list[Hotkey]:
        """Return the keys that work now, with the grades."""
        grades = enumerate(self.sitting.buttons, 1) if self.sitting.card and self.sitting.shown else ()
        return [*(Hotkey(str(number), cards.NAMES[grade], GRADES[grade]) for number, grade in grades), *self.keys()]

    def press(self, key: str) -> None:
        """Take a key."""
        card = self.sitting.card
        match key:
            case "u":
                self._do(Act.UNDO)
            case "d":
                self.run_demo(self._concept_to_run())
                self._do(Act.BACK)
            case "enter" | "space" | "q" | "escape" if card is None:
                self.left = True
            case _ if card is None:
                pass
            case "space" | "enter":
                self._do(Grade.GOOD if self.sitting.shown else Act.SHOW)
            case "1" | "2" | "3" | "4" if int(key) <= len(self.sitting.buttons):
                self._do(self.sitting.buttons[int(key) - 1])
            case "s":
                self._do(Act.SKIP)
            case "p":
                self._prove()
            case "v" if self.sitting.shown:
                self.tell_source(card.source)
            case "f":
                self.flag(card.key)
            case "q":
                self._do(Act.STOP)
                self.left = True

    def summary(self) -> RenderableType:
        """Draw what the sitting came to."""
        came_to = study.sum_up(self.sitting)
        held = None if self.sitting.stopped else self.sitting.deal
        weakest = self.desk.concepts.get(came_to.wanting or self._weakest() or "")
        return cards.summary(came_to, held, self._due(), (weakest.id, weakest.title) if weakest else None)

    def spoken(self) -> RenderableType:
        """Draw what is new, for a terminal that only goes down."""
        if self.sitting.shown:
            return Group(cards.back(self.sitting), *self.above_keys())
        last = self._about_last()
        return Group(*([Text(last)] if last else []), Text(), cards.where(self.sitting), cards.front(self.sitting))

    def heard(self, line: str) -> None:
        """Take a line: the name of a key; an empty one turns the card."""
        self.take(line.lower() or "space")

    def _do(self, event: study.Event) -> None:
        """Do a step, and keep what it changed before anything else is shown."""
        now = self.desk.clock()
        after = study.step(self.sitting, event, now)
        added, taken = study.news(self.sitting, after)
        if added:
            self._receipts.append(self.desk.progress.review(added.card.key, added.grade, now, added.took))
        if taken:
            self.desk.progress.undo(self._receipts.pop(), now)
        self.sitting = after

    def _about_last(self) -> str:
        if not self.sitting.reviews or self.sitting.shown:
            return ""
        if stuck := self.sitting.stuck:
            shows = " · d shows it running" if self.demo_of(stuck.concept) else ""
            return f"forgotten often: set aside for today{shows} · u undo"
        return cards.graded(self.sitting.reviews[-1])

    def _concept_to_run(self) -> str | None:
        """Return the concept whose demo helps now: that of a card forgotten too often, else that on screen."""
        if self.sitting.card is None:
            return study.sum_up(self.sitting).wanting or self._weakest()
        stuck = None if self.sitting.shown else self.sitting.stuck
        return (stuck or self.sitting.card).concept

    def _due(self) -> str:
        """Say which cards are due now and soon, in the words and numbers of the home page."""
        day, memories = study_day(self.desk.clock()), self.sitting.memories
        soon = cards.forecast(study.due_soon(memories, day), day)
        return f"Due now: {study.due_now(memories, day)}. In the next seven days: {soon}."

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
            self._do(Act.BACK)
