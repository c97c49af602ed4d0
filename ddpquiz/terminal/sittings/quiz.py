"""A sitting with questions at the keyboard: keys or lines go in, verdicts come out, and each answer is kept at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from ddpquiz.learning import mastery, quiz, quiz_scores
from ddpquiz.learning.answers import AnswerLog
from ddpquiz.learning.calibration import sureness
from ddpquiz.learning.judge import chance
from ddpquiz.learning.quiz import Given, Late, QuizAction, SetSureness
from ddpquiz.learning.schedule import study_day
from ddpquiz.terminal.kit import style
from ddpquiz.terminal.sittings import countdown, question_view, quiz_keys, quiz_result
from ddpquiz.terminal.sittings.answer_entry import COMMANDS, ESCAPE, Entry, is_command, is_typed
from ddpquiz.terminal.sittings.sitting import Desk, SittingScreen, note_lines

if TYPE_CHECKING:
    import random
    from collections.abc import Hashable
    from datetime import timedelta

    from rich.console import RenderableType

    from ddpquiz.curriculum.concept import Question
    from ddpquiz.curriculum.posed import Posed
    from ddpquiz.terminal.kit.hotkeys import Hotkey


_TAKEN = "Time was up: what stood there is your answer."
_TOO_LATE = "Time was up; that question counts as not answered."


class QuizScreen(SittingScreen):
    """One sitting with questions."""

    def __init__(
        self,
        desk: Desk,
        state: quiz.Quiz,
        dice: random.Random,
        *,
        final: bool = False,
        opening: str = "",
        about: str = "",
        go_on: str = "",
    ) -> None:
        super().__init__(desk)
        self.quiz = state
        self.note = opening
        self._about = about  # the words of the command that say what is asked about
        self._go_on = go_on  # the whole command
        self.entry = Entry()  # for the question on screen
        self._first: quiz.Quiz | None = None  # before what was wrong was asked once more
        self._log = AnswerLog(desk.progress, desk.concepts)
        self._dice = dice
        self._final = final  # nobody is there to ask again
        self.unread: dict[str, str] = {}  # questions whose answer could not be read then, and what would be one
        self._unread_sureness = False  # the next line says how sure somebody was of such an answer

    @property
    def scene(self) -> Hashable:
        """The question and whether it was judged."""
        now = self.quiz
        return id(now.asked), now.place, now.looked, now.judged, now.pending is None, now.stopped

    @property
    def added(self) -> Hashable:
        """The hints, which stand below the question."""
        return self.quiz.hints

    @property
    def over(self) -> bool:
        """Whether no question is left."""
        return self.quiz.posed is None

    def body(self) -> RenderableType:
        """Draw the question, the verdict on it, or what the quiz came to."""
        if self.quiz.posed is None:
            return Group(self._result(), Text(), *self._review())
        if answer := self.quiz.shown:
            return Group(
                self._where(), question_view.verdict(answer), Text(), question_view.VerdictView(answer), Text()
            )
        asked = question_view.asked(self.quiz.posed, self.quiz.hints, self.entry.text)
        return Group(self._where(), Text(), *asked, Text())

    @property
    def early(self) -> tuple[str, ...]:
        """The keys that count even when they were typed before a scene was painted; a letter may be text."""
        return tuple(key for key in super().early if len(key) > 1 or not self._typing())

    def above_keys(self) -> list[RenderableType]:
        """Draw what is said about the last key, and what was typed so far: in sight, however tall the question is."""
        posed = self._typing()
        left = self._left()
        field = [question_view.field(posed.question, self.entry)] if posed else []
        return [*self._note_lines(), *field, *([countdown.remaining(left)] if left is not None else [])]

    def patience(self) -> float | None:
        """Return the seconds until the clock shows something else."""
        left = self._left()
        return None if left is None else countdown.until_change(left)

    def tick(self) -> bool:
        """Take the question away when its time is over, and what stands there as the answer."""
        left, posed = self._left(), self.quiz.posed
        if posed is None or left is None or left:
            return False
        given = len(self.quiz.answers)
        self._do(Late("" if is_command(self.entry.text, posed.question) else self.entry.text))
        taken = self.quiz.pending or len(self.quiz.answers) > given
        self.helping, self.note = False, "" if self.quiz.judged else _TAKEN if taken else _TOO_LATE
        return True

    def keys(self) -> list[Hotkey]:
        """Return the keys that work now."""
        return quiz_keys.keys(self.quiz, self.entry, self._flag_key(), demo=self._has_demo())

    def commands(self) -> list[Hotkey]:
        """Return the keys that work after escape, while an answer is typed."""
        if not self._typing() or self.entry.escaped:
            return []
        return quiz_keys.commands(self.quiz, self._flag_key(), demo=self._has_demo())

    def handle_key(self, key: str) -> None:
        """Take a key; a text takes all characters, also those that are keys elsewhere."""
        posed = None if self.helping else self._typing()
        if posed is None:
            super().handle_key(key)
        elif self.entry.escaped:
            self.entry = replace(self.entry, escaped=False)
            if key in {each.key for each in self.commands()}:
                super().handle_key(key)
            elif len(key) == 1:
                self._type(key, posed.question)
        else:
            self.note = ""
            self._type(key, posed.question)

    def press(self, key: str) -> None:
        """Take a key that is no text."""
        posed = self.quiz.posed
        match key:
            case "u":
                self._do(QuizAction.UNDO)
            case "d" | "h" | "x" if posed and self.quiz.rules.exam:
                self.note = quiz_keys.IN_EXAM
            case "d" if self._left() is None:  # a demo does not stop the clock
                self.run_demo(posed.question.concept if posed else quiz_scores.wanting(self.quiz))
                self._do(QuizAction.BACK)
            case "r" if posed is None and self.quiz.missed:
                self._retry()
            case "enter" | "q" | "escape" if posed is None:
                self.left = True
            case _ if posed is None:
                pass
            case "q":
                self._do(QuizAction.STOP)
                self.left = not self.quiz.answers  # otherwise what it came to is shown first
            case "f":
                self.flag(posed.question.key)
            case _ if self.quiz.judged:
                self._after_verdict(key, posed)
            case _ if self.quiz.pending:
                said = sureness(chance(posed.question))
                if key.isdecimal() and int(key) in said:
                    self._do(SetSureness(said[int(key)]))
            case "h":
                self._do(QuizAction.HINT)
            case "x":
                self._do(QuizAction.SOLVE)
            case "s":
                self._do(QuizAction.SKIP)
            case "p":
                self.note = "The proof comes with the verdict."
            case _ if not is_typed(posed.question):
                self._type(key, posed.question)

    def summary(self) -> RenderableType:
        """Draw what the quiz came to; an exam is gone through before that, so that the result stays in sight."""
        unfinished = self.quiz.stopped or self.quiz.posed
        if unfinished and not self.quiz.answers and not self._first:
            return Group()
        return Group(*self._review(), self._result())

    def _review(self) -> list[RenderableType]:
        first = self._first or self.quiz
        return quiz_result.review(first) if first.rules.exam else []

    def _result(self) -> RenderableType:
        today = study_day(self.desk.clock())
        counting = [row for row in self.desk.progress.entries("answer") if not row.retry]
        again = self.quiz if self._first else None
        strengths = mastery.strengths(counting, today)
        first, called = self._first or self.quiz, self._log.called
        is_first = len(counting) <= len(first.answers)  # the first verdict ever; later `?` shows the legend
        names = self.desk.concepts
        return quiz_result.result(
            first, again, strengths, called, names, self._about, self._go_on, with_legend=is_first
        )

    def shown(self) -> RenderableType:
        """Draw the body, or what the keys do; at the end also what the words of the verdict mean."""
        if self.helping and self.quiz.posed is None:
            return Group(super().shown(), Text(), *quiz_result.legend())
        return super().shown()

    def spoken(self) -> RenderableType:
        """Draw what is new, for a terminal that only goes down."""
        if answer := self.quiz.shown:
            return Group(question_view.verdict(answer), *question_view.judged(answer))
        if self.quiz.pending:
            return Text(quiz_keys.remark(self.quiz))
        assert self.quiz.posed is not None  # noqa: S101
        opening = self._note_lines() if not self.quiz.place else []
        return Group(Text(), *opening, self._where(), *question_view.asked(self.quiz.posed, self.quiz.hints))

    def goes_on(self) -> bool:
        """Go on after a verdict, which stays in sight."""
        judged = self.quiz.judged
        self._do(QuizAction.NEXT)
        return judged

    def handle_line(self, line: str) -> None:
        """Take a line: an answer, or the letter of a key, which is `:h` where the answer is typed."""
        if self._unread_sureness:
            self._unread_sureness = False
            return
        posed = self.quiz.posed
        key = line.removeprefix(":")
        said = sureness(chance(posed.question)) if posed and self.quiz.pending else {}
        if said and (key in map(str, said) or self._final or not key):
            self._do(SetSureness(said.get(int(key)) if key.isdecimal() else None))
            return
        as_key = key in {*COMMANDS, "p"} and (key != line or not self._typing())
        self.note = ""
        if as_key and key == "p" and self.quiz.answers and not self.quiz.rules.exam:
            self.run_proof(self.quiz.answers[-1].posed)
            self._do(QuizAction.BACK)
        elif as_key:
            super().handle_key(key)  # not as text
            if key == "h" and posed and self.quiz.hints:
                self.note = " ".join(posed.question.hints[self.quiz.hints - 1 : self.quiz.hints])
        elif self.quiz.pending:
            self.note = quiz_keys.remark(self.quiz)
        elif posed and is_command(line, posed.question):
            self.note = f"`{line}` is a key: type :{line} to use it."
            self._pass_over(posed, line, self.note)
        elif posed:
            self._do(Given(line) if line else QuizAction.SKIP)
            self.note = self.quiz.unclear
            self._pass_over(posed, line, self.quiz.unclear)

    def _typing(self) -> Posed | None:
        """Return the question on screen if its answer is typed."""
        posed = None if self.quiz.judged or self.quiz.pending else self.quiz.posed
        return posed if posed and is_typed(posed.question) else None

    def _left(self) -> timedelta | None:
        return self.quiz.left(self.desk.clock()) if self.quiz.rules.timed else None

    def _has_demo(self) -> bool:
        posed = self.quiz.posed
        return self.demo_of(posed.question.concept if posed else quiz_scores.wanting(self.quiz)) is not None

    def _where(self) -> Text:
        assert self.quiz.posed is not None  # noqa: S101
        posed = self.quiz.posed
        return question_view.where(self.quiz, posed, flagged=self.is_flagged(posed.question.key))

    def _note_lines(self) -> list[RenderableType]:
        return note_lines(self.note or quiz_keys.remark(self.quiz))

    def _flag_key(self) -> Hotkey:
        posed = self.quiz.posed
        return self.flag_key(posed.question.key if posed else "")

    def _pass_over(self, posed: Posed, line: str, unclear: str) -> None:
        """Count what cannot be read as no answer when nobody is there to be asked again, and say so."""
        if not self._final or not unclear:
            return
        key = posed.question.key
        self.unread[key] = unclear
        self._unread_sureness = self.quiz.rules.confidence
        style.complaints().print(f"{key}: `{style.plain(line)}` is no answer. {unclear}", soft_wrap=True)
        self._do(QuizAction.SKIP)

    def _type(self, key: str, question: Question) -> None:
        """Take a key into the answer."""
        if key == ESCAPE and is_typed(question):
            self.entry = replace(self.entry, escaped=True)
            return
        self.entry = self.entry.key(key, question)
        if not self.entry.given:
            return
        self.entry = replace(self.entry, given=False)
        if is_command(text := self.entry.text, question):
            self.entry, self.note = Entry(), f"`{text.strip()}` is a key: press esc, then {text.strip()}."
        else:
            self._do(Given(text))

    def _after_verdict(self, key: str, posed: Posed) -> None:
        match key:
            case "enter" | "space":
                self._do(QuizAction.NEXT)
            case "p" if posed.question.proof:
                self.run_proof(posed)
                self._do(QuizAction.BACK)
            case "p":
                self.note = "No proof for this one."

    def _retry(self) -> None:
        self._first = self._first or self.quiz
        self.quiz = quiz.begin(self._originals(), self._dice, self.desk.clock(), retry=True)
        self.entry = Entry()  # what stood there when the quiz was stopped is no answer to the first question
        self._log.close()

    def _originals(self) -> list[Question]:
        """Return the missed questions as they stand in the content, to be posed anew."""
        missed = {question.key for question in self.quiz.missed}
        everywhere = (q for concept in self.desk.concepts.values() for q in concept.questions)
        return [question for question in everywhere if question.key in missed]

    def _do(self, event: quiz.Event) -> None:
        """Do a step, and keep what it changed before anything else is shown."""
        now = self.desk.clock()
        after = quiz.step(self.quiz, event, now)
        added, taken = quiz.news(self.quiz, after)
        if added:
            self._log.append(added, retry=self.quiz.retry)
        if taken:
            self._log.undo(now)
        if (after.place, after.answer, after.pending) != (self.quiz.place, self.quiz.answer, self.quiz.pending):
            self.entry = Entry()
        self.quiz = after
