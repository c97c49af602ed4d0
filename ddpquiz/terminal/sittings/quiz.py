"""The screen of a quiz: each answer is saved before its verdict is shown."""

import random
from collections.abc import Hashable
from datetime import datetime, timedelta

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.curriculum.concept import DemoLink
from ddpquiz.curriculum.posed_question import Posed
from ddpquiz.learning import mastery, quiz, quiz_scores
from ddpquiz.learning.answers import AnswerLog
from ddpquiz.learning.calibration import sureness
from ddpquiz.learning.judge import chance
from ddpquiz.learning.quiz_state import Event, Given, GoTo, Late, Quiz, QuizAction, SetSureness
from ddpquiz.learning.schedule import study_day
from ddpquiz.terminal.kit.hotkeys import Hotkey
from ddpquiz.terminal.sittings import exam_overview, question_view, quiz_key_line, quiz_result
from ddpquiz.terminal.sittings.answer_entry import AnswerScreen, Entry, is_command
from ddpquiz.terminal.sittings.quiz_result import QuizCommand
from ddpquiz.terminal.sittings.sitting import Desk, SittingScreen, note_lines
from ddpquiz.terminal.sittings.typing_screen import command_line

_ACTIONS = {"h": QuizAction.HINT, "x": QuizAction.SOLVE, "s": QuizAction.SKIP}


class QuizScreen(AnswerScreen, SittingScreen):
    """A quiz."""

    def __init__(self, desk: Desk, state: Quiz, dice: random.Random, command: QuizCommand) -> None:
        super().__init__(desk)
        self.quiz = state
        self.note = command.opening
        self.command = command
        self._first: Quiz | None = None  # before what was wrong was asked once more
        self._log = AnswerLog(desk.progress, desk.concepts)
        self._dice = dice
        self._number = exam_overview.NumberEntry()
        before = self._strengths(state.began).values()
        self._is_first = not any("%" in each.short for each in before)  # no concept had a verdict before this

    @property
    def scene(self) -> Hashable:
        now = self.quiz
        return id(now.asked), now.place, now.looked, now.judged, now.pending is None, now.stopped

    @property
    def added(self) -> Hashable:
        return self.quiz.hints

    @property
    def over(self) -> bool:
        return self.quiz.over

    @property
    def turning(self) -> tuple[str, ...]:
        return ("enter",) if self.over and self.quiz.rules.exam else ()  # nobody leaves verdicts that were not seen

    def body(self) -> RenderableType:
        if self.quiz.overview:
            return exam_overview.overview(self.quiz, self._number)
        if self.quiz.posed is None:
            return Group(self._result(), Text(), *quiz_result.review(self._first or self.quiz))
        if answer := self.quiz.shown:
            head = Group(self._where(), question_view.verdict(answer), Text())
            view = question_view.verdict_view(answer, lambda width: Group(head, Text(), self.foot(width)))
            return Group(head, view, Text())
        asked = question_view.asked(self.quiz.posed, self.quiz.hints, self.entry.text)
        return Group(self._where(), Text(), *asked, Text())

    def above_keys(self) -> list[RenderableType]:
        """Draw the note, what was typed so far, and the clock; they are visible below a long question."""
        posed = self.typing
        left = self._left()
        field = [command_line() if self.escaped else question_view.field(posed.question, self.entry)] if posed else []
        return [*self._note_lines(), *field, *([question_view.remaining(left)] if left is not None else [])]

    def patience(self) -> float | None:
        left = self._left()
        return None if left is None else question_view.until_change(left)

    def tick(self) -> bool:
        """End the question, or the whole exam, when its time is over; what was entered counts as the answer."""
        if self._left() != timedelta(0):
            return False
        posed, text = self.quiz.posed, self.entry.text
        self._do(Late("" if posed and is_command(text, posed.question) else text))
        self.helping, self.note = False, "Time is up: what you had entered is your answer." if self.quiz.pending else ""
        return True

    def keys(self) -> list[Hotkey]:
        has_demo = self._demo is not None
        keys = quiz_key_line.keys(self.quiz, self.entry, self._flag_key(), demo=has_demo, escaped=self.escaped)
        return quiz_key_line.inside(keys, self.quiz, self.leave)

    def escape_keys(self) -> list[Hotkey]:
        keys = quiz_key_line.commands(self.quiz, self._flag_key(), demo=self._demo is not None)
        return quiz_key_line.inside(keys, self.quiz, self.leave)

    def press(self, key: str) -> None:
        posed = self.quiz.posed
        match key:
            case "u":
                self._number.clear()
                self._do(QuizAction.UNDO)
            case "q" if posed or self.quiz.overview:
                self._stop()
            case _ if self.quiz.overview:
                self._press_in_overview(key)
            case _ if posed is None:
                self._press_at_end(key)
            case "d":
                self._show_demo()
            case "f":
                self.flag(posed.question.key)
            case "p":
                self._prove(posed)
            case "enter" | "space" | "escape" if self.quiz.judged:
                self._go_on(key)
            case _ if not self.quiz.judged:
                self._press_on_question(posed, key)

    def _go_on(self, key: str) -> None:
        """Leave a verdict; escape leaves all that were looked at again, and stays on the last one."""
        for _ in range(self.quiz.looked if key == "escape" else 1):
            self._do(QuizAction.NEXT)

    def _press_in_overview(self, key: str) -> None:
        if (place := self._number.press(key, self.quiz)) is not None:
            self._do(GoTo(place))

    def _press_at_end(self, key: str) -> None:
        if key == "d":
            self._show_demo()
        elif key == "r" and self.quiz.missed:
            self._retry()
        elif key in ("enter", "q", "escape"):
            self.left = True

    def _press_on_question(self, posed: Posed, key: str) -> None:
        """Obey a key while a question waits for its answer, or for how sure the learner is of it."""
        if self.quiz.pending:
            said = sureness(chance(posed.question))
            if key.isdecimal() and int(key) in said:
                self._do(SetSureness(said[int(key)]))
        elif self.quiz.rules.exam and key in ("h", "x"):
            self.note = question_view.IN_EXAM
        elif key in _ACTIONS:
            self._do(_ACTIONS[key])
        elif not self.typing:
            self.enter(key)

    def _stop(self) -> None:
        """End the quiz, and leave at once if there is no result; an exam shows its overview first."""
        if self.quiz.rules.exam and not self.quiz.overview:
            self._do(QuizAction.OVERVIEW)
            return
        self._do(QuizAction.STOP)
        self.left = not self.quiz.answers

    def _show_demo(self) -> None:
        """Run the demo, while no clock runs; before the answer it counts as all hints."""
        posed = self.quiz.posed
        if posed and self.quiz.rules.exam:
            self.note = question_view.IN_EXAM
        elif self._left() is None and not self.quiz.pending:
            shown = self.run_demo(self._demo, answered=posed.question.key if posed else "")
            self._do(QuizAction.DEMO if shown else QuizAction.BACK)

    def summary(self) -> RenderableType:
        """Draw the result; the verdicts of an exam stand above it, so that the result is what remains visible."""
        if (self.quiz.stopped or not self.quiz.over) and not self.quiz.answers and not self._first:
            return Group()
        return Group(*quiz_result.review(self._first or self.quiz), self._result())

    def _result(self) -> RenderableType:
        return quiz_result.result(
            quiz_result.QuizResult(
                quiz=self._first or self.quiz,
                again=self.quiz if self._first else None,
                strengths=self._strengths(self.desk.clock()),
                called=self._log.called,
                concepts=self.desk.concepts,
                command=self.command,
                explained=self._is_first,
            )
        )

    def _strengths(self, at: datetime) -> dict[str, mastery.Strength]:
        return mastery.strengths(self.desk.progress.last_answers(), study_day(at))

    def help(self) -> RenderableType:
        return Group(super().help(), *(quiz_result.legend() if self.over else []))

    @property
    def answering(self) -> Posed | None:
        return None if self.quiz.judged or self.quiz.pending else self.quiz.posed

    def submit(self, text: str) -> None:
        self._do(Given(text))

    def _left(self) -> timedelta | None:
        return self.quiz.left(self.desk.clock()) if self.quiz.rules.timed else None

    @property
    def _demo(self) -> DemoLink | None:
        return self.demo_of(self.quiz.posed.question.concept if self.quiz.posed else quiz_scores.wanting(self.quiz))

    def _where(self) -> Text:
        assert self.quiz.posed is not None  # noqa: S101
        posed = self.quiz.posed
        return question_view.where(self.quiz, posed, flagged=self.is_flagged(posed.question.key), path=self.desk.place)

    def _note_lines(self) -> list[RenderableType]:
        return note_lines(self.note or question_view.remark(self.quiz))

    def _flag_key(self) -> Hotkey:
        return self.flag_key(self.quiz.posed.question.key if self.quiz.posed else "")

    def _prove(self, posed: Posed) -> None:
        if not self.quiz.judged:
            self.note = "The proof comes with the verdict."
        elif posed.question.proof is None:
            self.note = "This question has no proof."
        else:
            self.run_proof(posed)
            self._do(QuizAction.BACK)

    def _retry(self) -> None:
        self._first = self._first or self.quiz
        missed = self.desk.questions({question.key for question in self.quiz.missed})  # to be posed anew
        self.quiz = quiz.begin(missed, self._dice, self.desk.clock(), retry=True)
        self.entry = Entry()  # drop what was entered before the quiz was stopped
        self._log.close()

    def _do(self, event: Event) -> None:
        """Do a step, and save what it changed before anything else is shown."""
        now = self.desk.clock()
        after = quiz.step(self.quiz, event, now)
        added, removed = quiz.news(self.quiz, after)
        if removed:
            self._log.undo(removed, now)
        if added:
            self._log.append(added, retry=self.quiz.retry)
        if (after.place, after.answer, after.pending) != (self.quiz.place, self.quiz.answer, self.quiz.pending):
            self.entry, self.escaped = Entry.of(after.given), False
        if isinstance(event, Given):
            self.note = after.unclear
        self.quiz = after
