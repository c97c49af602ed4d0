"""The screen of a sitting with cards: each grade is saved before the next card is shown."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import Question
from ddpquiz.curriculum.posed_question import pose
from ddpquiz.learning import mastery, standing, study
from ddpquiz.learning.log_rows import Receipt
from ddpquiz.learning.schedule import Grade, study_day
from ddpquiz.learning.study import Hiding, Review, StudyAction
from ddpquiz.terminal.kit.hotkeys import HELP, Hotkey
from ddpquiz.terminal.kit.layout import Barred, Folded
from ddpquiz.terminal.kit.style import prose
from ddpquiz.terminal.sittings import card_view
from ddpquiz.terminal.sittings.card_view import BURY, GOOD, GRADES, LOOK, NAMES, SHOW, SKIP, SUSPEND, UNDO
from ddpquiz.terminal.sittings.sitting import DEMO, PROOF, SOURCE, Desk, SittingScreen, note_lines

if TYPE_CHECKING:
    from ddpquiz.terminal.sittings.lookup import Lookup

_ACTIONS = {"s": StudyAction.SKIP, "x": StudyAction.SUSPEND, "b": StudyAction.BURY, "q": StudyAction.STOP}


class StudyScreen(SittingScreen):
    """A sitting with cards. `go_on` is the command that was given, without the number of new cards."""

    def __init__(
        self,
        desk: Desk,
        sitting: study.Sitting,
        *,
        a_day: int | None = standing.NEW_A_DAY,
        go_on: str = "ddpquiz study",
        opening: Sequence[str] = (),
    ) -> None:
        super().__init__(desk)
        self.sitting = sitting
        self.lookup: Lookup | None = None
        self._receipts: list[Receipt | None] = []  # of what was done, in order; None where the log does not change
        self._a_day = a_day  # new cards; None: without a limit
        self._go_on = go_on
        self._opening = opening  # texts above the first card

    @property
    def scene(self) -> Hashable:
        look = self.lookup
        found = look and (look.open, look.answered, look.hits if look.open else ())
        return len(self.sitting.done), self.sitting.queue, self.sitting.shown, self.sitting.stopped, found

    @property
    def reading(self) -> bool:
        return bool(self.lookup and self.lookup.open)

    @property
    def writing(self) -> bool:
        return self.lookup is not None

    @property
    def over(self) -> bool:
        return self.sitting.card is None

    def body(self) -> RenderableType:
        if self.lookup:
            return self.lookup.body()
        if self.sitting.card is None:
            return Group(self.summary(), Text(), *note_lines(self.note))
        parts: list[RenderableType] = []
        if not self.sitting.previous and not self.sitting.shown:
            parts += [part for text in self._opening for part in (prose(text, "quiet"), Text())]
        parts.append(self._where())
        front, below = prose(self.sitting.card.front, "bold"), [Text(), *note_lines(self.note)]
        if not self.sitting.shown:
            return Group(*parts, Text(self._about_last(), style="quiet"), Text(), front, *below)
        back = [Barred(prose(self.sitting.card.back))]

        def around(width: int) -> RenderableType:
            return Group(*parts, *below, self.foot(width))

        return Group(*parts, Folded(front, [Text()], back, title="The front", around=around, above=2), *below)

    def above_keys(self) -> list[RenderableType]:
        if self.lookup:
            return self.lookup.field()
        if self.sitting.card is None or not self.sitting.shown:
            return []
        if self.sitting.cram:
            return [card_view.buttons(dict.fromkeys(self.sitting.buttons))]
        return [card_view.buttons(self.sitting.preview(study_day(self.desk.clock())))]

    def keys(self) -> list[Hotkey]:
        if self.lookup:
            return self.lookup.keys()
        undo = [UNDO] if self.sitting.previous else []
        demo = [DEMO] if self.demo_of(self._concept_to_run()) else []
        if (card := self.sitting.card) is None:
            more = [card_view.more(len(held))] if (held := self.sitting.deal.held) else []
            return [Hotkey("enter", "leave"), *more, *undo, *demo, LOOK, HELP]
        turn = GOOD if self.sitting.shown else SHOW
        proof = [PROOF] if self.sitting.shown and self._proof() else []
        source = [SOURCE] if card.source and self.sitting.shown else []
        flag = self.flag_key(card.key)
        usual = [*demo, *proof, SKIP] if self.sitting.shown else [SKIP, *demo]  # after the back, few skip a card
        return [turn, *undo, *usual, *source, flag, LOOK, BURY, SUSPEND, HELP, self.leave]

    def all_keys(self) -> list[Hotkey]:
        asked = self.sitting.card and self.sitting.shown and not self.lookup
        grades = enumerate(self.sitting.buttons if asked else (), 1)
        return [*(Hotkey(str(number), NAMES[grade], GRADES[grade]) for number, grade in grades), *self.keys()]

    def handle_key(self, key: str) -> None:
        if self.lookup:
            self.note = ""
            self.lookup = self.lookup.key(key)
        else:
            super().handle_key(key)

    def _scrolling(self, key: str) -> str:
        """Return the key as it scrolls: one that moves in the words of a search scrolls nothing."""
        return "" if self.lookup and self.lookup.changes_text(key) else super()._scrolling(key)

    def press(self, key: str) -> None:
        card = self.sitting.card
        match key:
            case "/":
                from ddpquiz.terminal.sittings.lookup import Lookup  # here, because the first card must not wait for it

                self.lookup = Lookup(Catalog((), tuple(self.desk.concepts.values()), self.desk.sources))
            case "u":
                self.note = "undone" if self.sitting.previous else ""
                self._do(StudyAction.UNDO)
            case "d":
                self.run_demo(self.demo_of(self._concept_to_run()))
                self._do(StudyAction.BACK)
            case "n" if card is None:
                self._do(StudyAction.MORE)
            case _ if card is None:
                self.left = key in ("enter", "q", "escape")  # not space, which may be pressed once too often
            case "p":
                self._prove()
            case "f":
                self.flag(card.key)
            case "v" if self.sitting.shown:
                self.show_source(card.source)
            case _:
                self._press_on_card(key)

    def _press_on_card(self, key: str) -> None:
        """Obey a key that does something to the card on screen."""
        buttons = dict(zip("1234", self.sitting.buttons, strict=False))
        if key in ("space", "enter"):
            self._do(Grade.GOOD if self.sitting.shown else StudyAction.SHOW)
        elif key in buttons:
            self._do(buttons[key])
        elif key in _ACTIONS:
            self._do(_ACTIONS[key])
            self.left = self.sitting.stopped

    def summary(self) -> RenderableType:
        return card_view.result(self.sitting, self.desk, self._a_day, self._go_on, self._concept_to_read())

    def new_lines(self) -> RenderableType:
        if self.lookup:
            return self.lookup.body()
        if self.sitting.shown:
            return Group(Barred(prose(self.sitting.queue[0].back)), *self.above_keys())
        last = [Text(text) for text in self._opening if not self.sitting.previous] or [Text(self._about_last())]
        return Group(*filter(None, last), Text(), self._where(), prose(self.sitting.queue[0].front, "bold"))

    def handle_line(self, line: str) -> None:
        """Obey a line: the name of a key; an empty line turns the card over. `/words` looks the words up."""
        reading = self.lookup is not None
        self.lookup = None
        if line.startswith("/"):
            self.press("/")
            self.lookup = self.lookup and self.lookup.opened(line[1:])
        elif line or not reading:
            self.handle_key(line.lower() or "space")

    def _do(self, event: study.Event) -> None:
        """Do a step, and save what it changed before anything else is shown."""
        now = self.desk.clock()
        after = study.step(self.sitting, event, now)
        added, removed = study.news(self.sitting, after)
        if added:
            self._receipts.append(self._save(added, now))
        if removed and (receipt := self._receipts.pop()):
            self.desk.progress.undo(receipt, now)
        self.sitting = after

    def _save(self, done: study.Done, now: datetime) -> Receipt | None:
        """Append what was done to the log; a grade in a cram does not change the schedule."""
        progress, card = self.desk.progress, done.card.key
        match done:
            case Review():
                return None if self.sitting.cram else progress.review(card, done.grade, now, done.took)
            case Hiding(act=StudyAction.SUSPEND):
                return progress.suspend(card, now)
            case _:
                return progress.bury(card, now)

    def _where(self) -> Text:
        return card_view.where(self.sitting, flagged=self.is_flagged(self.sitting.queue[0].key), path=self.desk.place)

    def _about_last(self) -> str:
        stuck = self.sitting.stuck
        return card_view.about_last(self.sitting, has_demo=bool(stuck and self.demo_of(stuck.concept)))

    def _concept_to_read(self) -> str | None:
        """Return the concept of which most was forgotten, or else the one that answers show to be weakest."""
        return study.sum_up(self.sitting).wanting or self._weakest

    @cached_property
    def _weakest(self) -> str | None:
        answers = (
            row for row in self.desk.progress.last_answers() if row.item.rpartition("/")[0] in self.desk.concepts
        )
        return mastery.weakest(mastery.strengths(answers, study_day(self.desk.clock())))

    def _concept_to_run(self) -> str | None:
        """Return the concept whose demo `d` runs: that of a card forgotten too often, or of the card on screen."""
        if self.sitting.card is None:
            return self._concept_to_read()
        stuck = None if self.sitting.shown else self.sitting.stuck
        return (stuck or self.sitting.card).concept

    def _proof(self) -> Question | None:
        """Return the question whose proof shows what the card on screen says."""
        card = self.sitting.card
        found = self.desk.questions({f"{card.concept}/{card.proof}"}) if card and card.proof else []
        return next(iter(found), None)

    def _prove(self) -> None:
        question = self._proof()
        if question is None:
            self.note = "This card has no proof."
        elif not self.sitting.shown:
            self.note = "The proof shows the answer; turn the card over first."
        else:
            self.run_proof(pose(question, random.Random(0)))  # noqa: S311
            self._do(StudyAction.BACK)
