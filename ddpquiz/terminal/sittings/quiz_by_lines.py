"""A quiz where whole lines are read: in a pipe, or on a terminal that cannot be painted."""

import random

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.curriculum.posed_question import Posed
from ddpquiz.learning.calibration import sureness
from ddpquiz.learning.judge import chance
from ddpquiz.learning.quiz_state import Given, GoTo, Quiz, QuizAction, SetSureness
from ddpquiz.terminal.kit import style
from ddpquiz.terminal.sittings import exam_overview, question_view
from ddpquiz.terminal.sittings.answer_entry import COMMANDS, is_command
from ddpquiz.terminal.sittings.quiz import QuizScreen
from ddpquiz.terminal.sittings.quiz_result import QuizCommand
from ddpquiz.terminal.sittings.sitting import Desk


class QuizByLines(QuizScreen):
    """A quiz that obeys lines as well as keys."""

    def __init__(self, desk: Desk, state: Quiz, dice: random.Random, command: QuizCommand) -> None:
        super().__init__(desk, state, dice, command)
        self.unread: dict[str, str] = {}  # why the answer to a question could not be read
        self._unread_sureness = False  # the next line is the sureness of such an answer

    def new_lines(self) -> RenderableType:
        if answer := self.quiz.shown:
            return Group(question_view.verdict(answer), *question_view.judged(answer))
        if self.quiz.pending:
            return Text(question_view.remark(self.quiz))
        if self.quiz.overview:
            return exam_overview.overview(self.quiz, self._number)
        assert self.quiz.posed is not None  # noqa: S101
        opening = self._note_lines() if not self.quiz.place else []
        return Group(Text(), *opening, self._where(), *question_view.asked(self.quiz.posed, self.quiz.hints))

    def goes_on(self) -> bool:
        """Go on after a verdict, and end an exam whose answers nobody can change."""
        goes_on = self.quiz.judged or (self.quiz.overview and self.command.final)
        self._do(QuizAction.STOP if self.quiz.overview and self.command.final else QuizAction.NEXT)
        return goes_on

    def handle_line(self, line: str) -> None:
        """Obey a line: an answer, or the letter of a key, which is `:h` where the answer is typed."""
        if self._unread_sureness:
            self._unread_sureness = False
            return
        posed = self.quiz.posed
        key = line.removeprefix(":")
        said = sureness(chance(posed.question)) if posed and self.quiz.pending else {}
        if said and (key in map(str, said) or self.command.final or not key):
            self._do(SetSureness(said.get(int(key)) if key.isdecimal() else None))
            return
        as_key = key in {*COMMANDS, "p"} and (key != line or not self.typing)
        self.note = ""
        if as_key and key == "p" and self.quiz.answers and not self.quiz.rules.exam:
            self.run_proof(self.quiz.answers[-1].posed)
            self._do(QuizAction.BACK)
        elif as_key:
            self.obey(key)
            if key == "h" and posed and self.quiz.hints:
                self.note = " ".join(posed.question.hints[self.quiz.hints - 1 : self.quiz.hints])
        elif self.quiz.pending:
            self.note = question_view.remark(self.quiz)
        elif posed and is_command(line, posed.question):
            self.note = f"`{line}` is a key: type :{line} to use it."
            self._pass_over(posed, line, self.note)
        elif posed:
            self._do(Given(line) if line else QuizAction.SKIP)
            self._pass_over(posed, line, self.note)
        else:
            self._obey_after_questions(line)

    def _obey_after_questions(self, line: str) -> None:
        """Obey a line at the end, or in the overview of an exam: the number of a question, or enter."""
        if self.quiz.overview and line.isdecimal() and 1 <= int(line) <= len(self.quiz.asked):
            self._do(GoTo(int(line) - 1))
        elif not line:
            self.obey("enter")

    def _pass_over(self, posed: Posed, line: str, unclear: str) -> None:
        """If nobody is there to try again, report a line that is not an answer, and skip the question."""
        if not self.command.final or not unclear:
            return
        key = posed.question.key
        self.unread[key] = unclear
        self._unread_sureness = self.quiz.rules.confidence
        style.complaints().print(f"{key}: `{style.plain(line)}` cannot be read as an answer. {unclear}", soft_wrap=True)
        self._do(QuizAction.SKIP)
