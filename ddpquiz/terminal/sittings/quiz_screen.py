"""A quiz: which questions, one after the other on the screen, each answer saved before its verdict is shown."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from rich.console import Console, Group, RenderableType
from rich.text import Text

from ddpquiz.bench.saved_bench import load_bench
from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import DemoLink, Question
from ddpquiz.curriculum.posed_question import Posed, on_machine
from ddpquiz.errors import UserError
from ddpquiz.learning import answers, mastery, quiz, quiz_scores
from ddpquiz.learning.answers import AnswerLog, SavedAnswer, with_hint_at_mistake
from ddpquiz.learning.guided_path import begun_concepts, further_pages, further_questions
from ddpquiz.learning.judge import chance
from ddpquiz.learning.log_rows import Row
from ddpquiz.learning.quiz import Event, Given, GoTo, Quiz, QuizAction, Rules, SetConfidence, TimeUp
from ddpquiz.learning.schedule import study_day
from ddpquiz.learning.statistics import confidence_keys
from ddpquiz.learning.unfinished_exam import UnfinishedExam, forget_exam, load_exam, save_exam
from ddpquiz.terminal.kit import style
from ddpquiz.terminal.kit.key_screen import BACK, GOES_BACK, HELP, QUIT, Hotkey, note_lines
from ddpquiz.terminal.kit.layout import Commands, columns, header
from ddpquiz.terminal.kit.style import plain, prose
from ddpquiz.terminal.kit.typing_screen import command_line
from ddpquiz.terminal.sittings import question_view, quiz_result
from ddpquiz.terminal.sittings.question_view import (
    COMMANDS,
    AnswerScreen,
    Entry,
    answer_words,
    is_calculation,
    is_command,
)
from ddpquiz.terminal.sittings.quiz_result import QuizCommand
from ddpquiz.terminal.sittings.rank_runner import DemoOptions
from ddpquiz.terminal.sittings.sitting import (
    DEMO,
    PROOF,
    ByLines,
    SittingContext,
    SittingScreen,
    command_words,
    run_sitting,
)

QUESTIONS = 10  # of a quiz, unless another count is asked for


@dataclass(frozen=True, kw_only=True)
class QuizChoice:
    """What to ask, and how: what the options of `ddpquiz test` say."""

    concept: Sequence[str] | None = None
    level: str | None = None
    kind: str | None = None
    track: str | None = None
    count: int = QUESTIONS
    seed: int | None = None
    wrong: bool = False
    timed: int | None = None
    exam: bool = False
    confidence: bool = False
    adaptive: bool = False
    every: bool = False  # also concepts whose lesson has not begun

    @property
    def about(self) -> str:
        """The words of the command line that say what is asked about."""
        return command_words(*self.concept or (), **{"--track": self.track, "--kind": self.kind})

    @property
    def command(self) -> str:
        """The command line that was given."""
        names = ("level", "count", "seed", "wrong", "timed", "exam", "confidence", "adaptive")
        options = {f"--{name}": getattr(self, name) for name in names} | {"--all": self.every}
        if self.count == QUESTIONS:
            del options["--count"]
        return command_words(*f"ddpquiz test {self.about}".split(), **options)

    @property
    def rules(self) -> Rules:
        timed = timedelta(seconds=self.timed) if self.timed else None
        return Rules(timed, self.exam, self.confidence, self.count if self.adaptive else 0)

    @property
    def is_open(self) -> bool:
        """Whether what the learner has begun decides what is asked about."""
        return not (self.concept or self.track or self.wrong or self.every) and self.seed is None


def ask_questions(
    context: SittingContext, choice: QuizChoice, console: Console, *, lines: bool = False, taught: bool = False
) -> QuizScreen:
    """Choose the questions, and ask them; with `lines`, a terminal is read as a pipe is.

    If `taught`, or if the choice is open, a lesson that was followed is asked about as `_taught` says.

    UserError if no question fits; KeyboardInterrupt if the learner interrupts the quiz.
    """
    catalog, progress = context.catalog, context.progress
    fitting, piped = _fitting(catalog, choice), not sys.stdin.isatty()
    about, rows = "", progress.entries("answer")
    if choice.is_open:
        fitting, about = _of_begun(fitting, begun_concepts(progress), catalog)
    if choice.wrong:
        fitting = _missed(fitting, rows)
    if not fitting:
        raise UserError(_nothing(choice))
    day = study_day(context.clock())
    earlier = set[str]() if choice.wrong or choice.seed is not None else _answered_on(day, fitting, rows)
    fitting = [question for question in fitting if question.key not in earlier]
    if (taught or choice.is_open) and not (choice.level or choice.adaptive):
        fitting = _taught(fitting, catalog, {row.item for row in progress.entries("stage")})
    right = Counter(row.item for row in rows if row.credit) if choice.seed is None else None
    dice = random.Random(choice.seed)  # noqa: S311
    count = len(fitting) if choice.adaptive else choice.count
    asked = quiz.choose_questions(fitting, count, dice, right)
    opening = " ".join(filter(None, [about, _already(catalog, earlier) if earlier else ""]))
    fresh = quiz.begin(_prepared(asked, rows), dice, context.clock(), rules=choice.rules)
    begun = _left_exam(context, choice, fresh, rows) if choice.exam and not piped else None
    if begun:
        opening = f"Going on with this exam: {len(begun.quiz.answers)} of {len(begun.quiz.asked)} have an answer."
    begun = begun or UnfinishedExam(fresh, {})
    command = QuizCommand(whole=choice.command, about=choice.about, opening=opening, final=piped)
    screen = QuizScreen(context, begun.quiz, dice, command, begun.saved)
    run_sitting(screen, console, lines=lines)
    return screen


def once_more(context: SittingContext, questions: Sequence[Question]) -> QuizScreen:
    """A quiz of questions that were missed in a lesson: nothing counts, and it closes after the last one."""
    asked = _prepared(questions, context.progress.entries("answer"))
    dice = random.Random()  # noqa: S311
    state = quiz.begin(asked, dice, context.clock(), retry=True)
    missed = f"You missed {'this question' if len(asked) == 1 else f'these {len(asked)} questions'} in the lesson."
    return QuizScreen(context, state, dice, QuizCommand(opening=f"{missed} These answers do not count."))


def _left_exam(context: SittingContext, choice: QuizChoice, fresh: Quiz, rows: Sequence[Row]) -> UnfinishedExam | None:
    """The exam that the same command line began and that was left before its end."""
    home, kept = context.progress.path.parent, {row.receipt for row in rows}
    questions = _on_machine([question for concept in context.catalog.concepts for question in concept.questions])
    return load_exam(home, choice.command, fresh, questions, kept)


def _prepared(questions: Sequence[Question], rows: Sequence[Row]) -> list[Question]:
    """The questions with figures of this machine, and with a hint at the mistake of the last answer if it was wrong."""
    last = {row.item: row for row in rows}
    return [
        with_hint_at_mistake(one, row.given or "") if (row := last.get(one.key)) and row.credit == 0 else one
        for one in _on_machine(questions)
    ]


def _on_machine(questions: Sequence[Question]) -> Sequence[Question]:
    """The questions with figures of this machine, in those that ask for them."""
    if not any(variable.measured for question in questions for variable in question.variables):
        return questions
    figures = load_bench().figures()
    return [on_machine(question, figures) for question in questions]


def _fitting(catalog: Catalog, choice: QuizChoice) -> list[Question]:
    """The questions that the command line asks for; UserError for a track named as a concept."""
    for name in {one.id for one in catalog.tracks} & set(choice.concept or ()) - {one.id for one in catalog.concepts}:
        raise UserError(f"{name} is a track: `ddpquiz test --track {name}`")
    return [
        question
        for concept in catalog.choose(choice.concept, choice.track)
        for question in concept.questions
        if choice.level in (None, question.level) and choice.kind in (None, question.kind)
    ]


def _of_begun(questions: list[Question], begun: set[str], catalog: Catalog) -> tuple[list[Question], str]:
    """The questions about lessons that the learner has begun, or all if none was; and a sentence that says which."""
    mine = [question for question in questions if question.concept in begun]
    lessons = len({concept.id for concept in catalog.concepts} & begun)
    if not mine or lessons == len(catalog.concepts):
        return questions, ""
    of = "the lesson" if lessons == 1 else f"the {lessons} lessons"
    return mine, f"About {of} that you have begun; --all asks about all {len(catalog.concepts)} concepts."


def _taught(questions: list[Question], catalog: Catalog, stages: Collection[str]) -> list[Question]:
    """The questions to ask about lessons that were followed.

    Those that may need further pages that were not opened are left out, and those that a step has asked, too. Where
    fewer than a verdict needs remain, as many as that takes are asked again, or all if there are not enough.
    """
    names = {stage.rpartition("/")[0] for stage in stages}
    followed = [concept for concept in catalog.concepts if concept.id in names]
    closed = [concept for concept in followed if further_pages(concept) not in stages]
    wait = {question.key for concept in closed for question in further_questions(concept)}
    met = {f"{concept.id}/{step.ask}" for concept in followed for step in concept.steps}
    ready = [question for question in questions if question.key not in wait]
    if len(ready) < mastery.ENOUGH:
        return questions
    fresh = [question for question in ready if question.key not in met]
    again = [question for question in ready if question.key in met]
    return [*fresh, *again[::-1][: max(0, mastery.ENOUGH - len(fresh))]]  # the later ones need more of the lesson


def _missed(questions: Sequence[Question], rows: Sequence[Row]) -> list[Question]:
    last = {row.item: row.credit for row in rows}
    return [question for question in questions if last.get(question.key) == 0]


def _answered_on(day: date, questions: Sequence[Question], rows: Sequence[Row]) -> set[str]:
    """Which of these questions were answered on a day; none if all were, so that they are asked again."""
    answered = {row.item for row in rows if row.day == str(day) and not row.retry}
    keys = {question.key for question in questions}
    return set() if keys <= answered else keys & answered


def _already(catalog: Catalog, earlier: set[str]) -> str:
    """How many questions are left out since they were answered today, perhaps as a prediction."""
    predicted = {f"{one.id}/{link.predict}" for one in catalog.concepts for link in one.demos if link.predict}
    how = " (the prediction before a demo counts)" if earlier & predicted else ""
    return f"{len(earlier)} answered earlier today{how}; going on with the rest."


def _nothing(choice: QuizChoice) -> str:
    if choice.wrong:
        return "You got none of these questions wrong last time; leave --wrong out."
    given = {"--level": choice.level, "--kind": choice.kind, "--track": choice.track}
    names = " or ".join(name for name, value in given.items() if value)
    return f"No question matches; leave out {names}, or name another concept."


_ACTIONS = {"h": QuizAction.HINT, "x": QuizAction.GIVE_UP, "s": QuizAction.SKIP}


class QuizScreen(AnswerScreen, SittingScreen):
    """A quiz."""

    def __init__(
        self,
        context: SittingContext,
        state: Quiz,
        dice: random.Random,
        command: QuizCommand,
        saved: Mapping[str, SavedAnswer] | None = None,  # what an exam that goes on has in the log
    ) -> None:
        super().__init__(context)
        self.quiz = state
        self.note = command.opening
        self.command = command
        self.by_lines: QuizByLines = QuizByLines(self)
        self._first: Quiz | None = None  # before what was wrong was asked once more
        self._log = AnswerLog(context.progress, context.concepts, saved)
        self._dice = dice
        self.number_entry = _NumberEntry()
        self._reviewed: int | None = None  # the place of the question whose verdict was opened after an exam
        before = self._strengths(state.began).values()
        self._is_first = not any("%" in each.short for each in before)  # no concept had a verdict before this

    @property
    def scene(self) -> Hashable:
        now = self.quiz
        return id(now.asked), now.place, now.looked, now.judged, now.pending is None, now.stopped, self._reviewed

    @property
    def added(self) -> Hashable:
        return self.quiz.hints

    @property
    def over(self) -> bool:
        return self.quiz.over

    @property
    def closed(self) -> bool:
        only_retries = self.quiz.retry and self._first is None  # nothing counted, so there is no result
        return super().closed or (self.over and only_retries)

    @property
    def reading(self) -> bool:
        return self.over and self.quiz.rules.exam  # nobody leaves verdicts that were not seen

    def body(self) -> RenderableType:
        if self.quiz.overview:
            return overview(self.quiz, self.number_entry)
        if self._reviewed is not None:
            return Group(*quiz_result.review_of(self._exam, self._reviewed))
        if self.quiz.posed is None:
            return Group(self._result(), Text(), *quiz_result.review(self._exam))
        if answer := self.quiz.shown:
            head = Group(self.where(), question_view.verdict(answer), Text())
            view = question_view.verdict_view(answer, lambda width: Group(head, Text(), self.foot(width)))
            return Group(head, view, Text())
        asked = question_view.asked(self.quiz.posed, self.quiz.hints, self.entry.text)
        return Group(self.where(), Text(), *asked, Text())

    def above_keys(self) -> list[RenderableType]:
        """Draw the note, what was typed so far, and the clock; they are visible below a long question."""
        posed = self.typing
        left = self._left()
        remarks = [] if self.note else self.remarks()
        field = [command_line() if self.escaped else question_view.field(posed.question, self.entry)] if posed else []
        return [*remarks, *field, *([question_view.remaining(left)] if left is not None else [])]

    def patience(self) -> float | None:
        left = self._left()
        return None if left is None else question_view.until_change(left)

    def tick(self) -> bool:
        """End the question, or the whole exam, when its time is over; what was entered counts as the answer."""
        if self._left() != timedelta(0):
            return False
        posed, text = self.quiz.posed, self.entry.text
        self.do(TimeUp("" if posed and is_command(text, posed.question) else text))
        self.helping, self.note = False, "Time is up: what you had entered is your answer." if self.quiz.pending else ""
        return True

    def keys(self) -> list[Hotkey]:
        has_demo = self._demo is not None
        if self._reviewed is not None:
            return _review_keys(self._exam, self._reviewed)
        if posed := self.answering:
            return self.answer_keys(posed.question)
        return inside(_key_line(self.quiz, self._flag_key(), demo=has_demo), self.quiz, self.leave)

    def escape_keys(self) -> list[Hotkey]:
        keys = _command_keys(self.quiz, self._flag_key(), demo=self._demo is not None)
        return inside(keys, self.quiz, self.leave)

    def press(self, key: str) -> None:
        posed = self.quiz.posed
        match key:
            case _ if self._reviewed is not None:
                self._press_in_review(self._reviewed, key)
            case "u":
                self.number_entry.clear()
                self.do(QuizAction.UNDO)
            case "q" if posed or self.quiz.overview:
                self._stop()
            case _ if self.quiz.overview:
                self._press_in_overview(key)
            case _ if posed is None:
                self._press_at_end(key)
            case _:
                self._press_on_item(posed, key)

    def _press_on_item(self, posed: Posed, key: str) -> None:
        """Obey a key while a question or its verdict is on the screen."""
        match key:
            case "d":
                self._show_demo()
            case "f":
                self.flag(posed.question.key)
            case "p":
                self._prove(posed)
            case "enter" | "escape" if self.quiz.judged:
                self._go_on(key)
            case _ if not self.quiz.judged:
                self._press_on_question(posed, key)

    def _go_on(self, key: str) -> None:
        """Leave a verdict; escape leaves all that were looked at again, and stays on the last one."""
        for _ in range(self.quiz.looked if key == "escape" else 1):
            self.do(QuizAction.NEXT)

    def _press_in_overview(self, key: str) -> None:
        if (place := self.number_entry.press(key, self.quiz)) is not None:
            self.do(GoTo(place))
        elif key == "escape":
            self.do(QuizAction.UNDO)

    def _press_at_end(self, key: str) -> None:
        if key == "d":
            self._show_demo()
        elif key == "p" and _last_proof(self.quiz):
            self._prove(self.quiz.answers[-1].posed)
        elif self.quiz.rules.exam and key == "p":
            self.note = "Open a question by its number; there, p runs its proof."
        elif self.quiz.rules.exam and (key.isdecimal() or (key == "enter" and self.number_entry.note)):
            self._reviewed = self.number_entry.press(key, self.quiz)
            self.note = self.number_entry.note
        elif key == "w" and self.quiz.missed:
            self._retry()
        elif key in ("enter", "q", "escape"):
            self.left = True

    def _press_in_review(self, place: int, key: str) -> None:
        """Obey a key on the verdict of one question of an exam."""
        posed = self._exam.asked[place]
        match key:
            case "p" if self._exam.answer_to(posed) is None:
                self.note = "You did not answer this question; its proof would show the answer."
            case "p":
                self._prove(posed)
            case "enter" if place + 1 < len(self._exam.asked):
                self._reviewed = place + 1
            case _ if key in ("enter", *GOES_BACK):
                self._reviewed = None

    @property
    def _exam(self) -> Quiz:
        """The quiz that counts: not the last retry of what was wrong."""
        return self._first or self.quiz

    def _press_on_question(self, posed: Posed, key: str) -> None:
        """Obey a key while a question waits for its answer, or for how sure the learner is of it."""
        if self.quiz.pending:
            said = confidence_keys(chance(posed.question))
            if key.isdecimal() and int(key) in said:
                self.do(SetConfidence(said[int(key)]))
        elif self.quiz.rules.exam and key in ("h", "x"):
            self.note = question_view.IN_EXAM
        elif key in _ACTIONS:
            if key == "h" and 0 < self.quiz.hints == len(posed.question.hints):
                self.note = "All hints are shown."
            self.do(_ACTIONS[key])
        elif not self.typing:
            self.enter(key)

    def _stop(self) -> None:
        """End the quiz, and leave at once if there is no result; an exam shows its overview first."""
        if self.quiz.rules.exam and not self.quiz.overview:
            self.do(QuizAction.OVERVIEW)
            return
        self.do(QuizAction.STOP)
        self.left = not self.quiz.answers

    def _show_demo(self) -> None:
        """Run the demo, while no clock runs; before the answer it counts as all hints."""
        posed = self.quiz.posed
        if posed and self.quiz.rules.exam:
            self.note = question_view.IN_EXAM
        elif self._left() is None and not self.quiz.pending:
            shown = self.run_demo(self._demo, DemoOptions(answered=posed.question.key if posed else ""))
            self.do(QuizAction.DEMO if shown else QuizAction.BACK)

    def summary(self) -> RenderableType:
        """Draw the result; the verdicts of an exam stand above it, so that the result is what remains visible."""
        if (self.quiz.stopped or not self.quiz.over) and not self.quiz.answers and not self._first:
            return Group()
        if self.quiz.rules.exam and not self.quiz.over:
            return Commands([(self.command.whole, "go on with this exam, which has not ended")])
        return Group(*quiz_result.review(self._exam), self._result())

    def _result(self) -> RenderableType:
        return quiz_result.result(
            quiz_result.QuizResult(
                quiz=self._exam,
                again=self.quiz if self._first else None,
                strengths=self._strengths(self.context.clock()),
                made_due=self._log.made_due,
                concepts=self.context.concepts,
                command=self.command,
                explained=self._is_first,
                inside=self.inside,
            )
        )

    def _strengths(self, at: datetime) -> dict[str, mastery.Strength]:
        return mastery.strengths(self.context.progress.last_answers(), study_day(at))

    def help(self) -> RenderableType:
        return Group(super().help(), *(quiz_result.legend() if self.over else []))

    @property
    def answering(self) -> Posed | None:
        return None if self.quiz.judged or self.quiz.pending else self.quiz.posed

    def submit(self, text: str) -> None:
        self.do(Given(text))

    def _left(self) -> timedelta | None:
        return self.quiz.left(self.context.clock()) if self.quiz.rules.timed else None

    @property
    def _demo(self) -> DemoLink | None:
        return self.demo_of(
            self.quiz.posed.question.concept if self.quiz.posed else quiz_scores.weakest_concept(self.quiz)
        )

    def where(self) -> Text:
        assert self.quiz.posed is not None  # noqa: S101
        question = self.quiz.posed.question
        title = self.context.catalog.concept(question.concept).title
        return question_view.question_header(
            self.quiz, title, flagged=self.is_flagged(question.key), path=self.context.place
        )

    def remarks(self) -> list[RenderableType]:
        return note_lines(self.note or question_view.remark(self.quiz))

    def _flag_key(self) -> Hotkey:
        return self.flag_key(self.quiz.posed.question.key if self.quiz.posed else "")

    def _prove(self, posed: Posed) -> None:
        if not (self.quiz.judged or self.over):
            self.note = "The proof comes with the verdict."
        elif posed.question.proof is None:
            self.note = "This question has no proof."
        else:
            self.run_proof(posed)
            self.do(QuizAction.BACK)

    def _retry(self) -> None:
        self._first = self._first or self.quiz
        wrong = {
            one.posed.question.key: answers.answer_text(one.posed, one.given, one.verdict.chosen)
            for one in self.quiz.answers
            if not one.right
        }
        missed = self.context.questions(wrong.keys())  # to be posed anew
        asked = [with_hint_at_mistake(question, wrong[question.key]) for question in missed]
        self.quiz = quiz.begin(asked, self._dice, self.context.clock(), retry=True)
        self.entry = Entry()  # drop what was entered before the quiz was stopped
        self._log.close()

    def do(self, event: Event) -> None:
        """Do a step, and save what it changed before anything else is shown."""
        now = self.context.clock()
        after, (added, removed) = quiz.step(self.quiz, event, now)
        if removed:
            self._log.undo(removed, now)
        if added:
            self._log.append(added, retry=self.quiz.retry)
        if (after.place, after.answer, after.pending) != (self.quiz.place, self.quiz.answer, self.quiz.pending):
            self.entry, self.escaped = Entry.of(after.given), False
        if isinstance(event, Given):
            self.note = after.unclear
        if after.rules.exam and not self.quiz.stopped:
            self._keep_exam(after, now)
        self.quiz = after

    def _keep_exam(self, exam: Quiz, now: datetime) -> None:
        """Keep an exam that goes on for the case that its window closes; when it ends, save what is not known."""
        home = self.context.progress.path.parent
        if exam.stopped:
            for answer in quiz.unanswered_as_unknown(exam, now):
                if answer.posed.question.key not in self.by_lines.unread:
                    self._log.append(answer, retry=False)
            forget_exam(home, self.command.whole)
        elif exam.answers and not self.command.final:
            save_exam(home, self.command.whole, UnfinishedExam(exam, self._log.saved), now)


class QuizByLines(ByLines[QuizScreen]):
    """A line is an answer, or the letter of a key, which is `:h` where the answer is typed.

    Nobody answers again where an unreadable line is `final`: then it is reported, and its question is skipped.
    """

    def __init__(self, screen: QuizScreen) -> None:
        super().__init__(screen)
        self.unread: dict[str, str] = {}  # why the answer to a question could not be read
        self._unread_confidence = False  # the next line is the confidence of such an answer

    def read(self, console: Console, lines: Iterable[str], *, asked: bool = False) -> None:
        super().read(console, lines, asked=asked)
        if self.screen.command.final and self.screen.quiz.rules.exam:  # nobody goes on with it
            self.screen.do(QuizAction.STOP)

    def new(self) -> RenderableType:
        screen = self.screen
        if answer := screen.quiz.shown:
            return Group(question_view.verdict(answer), *question_view.judged(answer))
        if screen.quiz.pending:
            return Text(question_view.remark(screen.quiz))
        if screen.quiz.overview:
            return overview(screen.quiz, screen.number_entry)
        assert screen.quiz.posed is not None  # noqa: S101
        opening = screen.remarks() if not screen.quiz.place else []
        return Group(Text(), *opening, screen.where(), *question_view.asked(screen.quiz.posed, screen.quiz.hints))

    def goes_on(self) -> bool:
        """Go on after a verdict, and end an exam whose answers nobody can change."""
        screen = self.screen
        goes_on = screen.quiz.judged or (screen.quiz.overview and screen.command.final)
        screen.do(QuizAction.STOP if screen.quiz.overview and screen.command.final else QuizAction.NEXT)
        return goes_on

    def obey(self, line: str) -> None:
        screen = self.screen
        if self._unread_confidence:
            self._unread_confidence = False
            return
        posed = screen.quiz.posed
        key = line.removeprefix(":")
        said = confidence_keys(chance(posed.question)) if posed and screen.quiz.pending else {}
        if said and (key in map(str, said) or screen.command.final or not key):
            screen.do(SetConfidence(said.get(int(key)) if key.isdecimal() else None))
            return
        as_key = key in {*COMMANDS, "p"} and (key != line or not screen.typing)
        screen.note = ""
        if as_key and key == "p" and screen.quiz.answers and not screen.quiz.rules.exam:
            screen.run_proof(screen.quiz.answers[-1].posed)
            screen.do(QuizAction.BACK)
        elif as_key:
            screen.obey(key)
            if key == "h" and posed and screen.quiz.hints:
                screen.note = " ".join(posed.question.hints[screen.quiz.hints - 1 : screen.quiz.hints])
        elif screen.quiz.pending:
            screen.note = question_view.remark(screen.quiz)
        elif posed and is_command(line, posed.question):
            screen.note = f"`{line}` is a key: type :{line} to use it."
            self._pass_over(posed, line, screen.note)
        elif posed:
            screen.do(Given(line) if line else QuizAction.SKIP)
            self._pass_over(posed, line, screen.note)
        else:
            self._obey_after_questions(line)

    def _obey_after_questions(self, line: str) -> None:
        """Obey a line at the end, or in the overview of an exam: the number of a question, or enter."""
        screen = self.screen
        if screen.quiz.overview and line.isdecimal() and 1 <= int(line) <= len(screen.quiz.asked):
            screen.do(GoTo(int(line) - 1))
        elif not line:
            screen.obey("enter")

    def _pass_over(self, posed: Posed, line: str, unclear: str) -> None:
        """If nobody is there to try again, report a line that is not an answer, and skip the question."""
        screen = self.screen
        if not screen.command.final or not unclear:
            return
        key = posed.question.key
        self.unread[key] = unclear
        self._unread_confidence = screen.quiz.rules.confidence
        style.complaints().print(f"{key}: `{style.plain(line)}` cannot be read as an answer. {unclear}", soft_wrap=True)
        screen.do(QuizAction.SKIP)


# The overview at the end of an exam: each question with its answer so far, and a number that leads to it.


def overview(quiz: Quiz, number_entry: _NumberEntry) -> RenderableType:
    """Draw each question of an exam with the answer that it has so far, and the number that is half typed."""
    count, asked = len(quiz.open), len(quiz.asked)
    left = f"Questions without an answer: {count} of {asked}" if count else "Every question has an answer"
    left += "; they count as wrong when the exam ends" if count and quiz.answers else ""
    rows = []
    for number, posed in enumerate(quiz.asked, 1):
        answer = quiz.answer_to(posed)
        text = prose(answer_words(posed, answer.given, answer.verdict)) if answer else Text("no answer", style="warn")
        rows.append((Text(str(number), style="key"), Text(plain(posed.question.concept), style="quiet"), text))
    typed = [Text(number_entry.note, style="warn")] if number_entry.note else []
    return Group(header("Exam", "overview"), Text(), Text(f"{left}.", style="head"), Text(), columns(rows), *typed)


def _number_key(quiz: Quiz, more: str) -> Hotkey:
    """The key of the numbers of questions."""
    last = len(quiz.asked)
    return Hotkey(f"1-{last}" if last > 1 else "1", "question", more)


def _review_keys(exam: Quiz, place: int) -> list[Hotkey]:
    """The keys on the verdict of one question after an exam."""
    answer = exam.answer_to(exam.asked[place])
    is_last = place + 1 == len(exam.asked)
    go_on = _TO_REVIEW if is_last else NEXT_VERDICT
    return [go_on, *(_proof_key(answer.posed.question) if answer else []), BACK, HELP]


class _NumberEntry:
    """The number of a question, typed digit by digit."""

    def __init__(self) -> None:
        self._typed = ""

    @property
    def note(self) -> str:
        """What to do next if a number is half typed, otherwise ""."""
        return f"Question {self._typed}: press enter, or one more digit." if self._typed else ""

    def clear(self) -> None:
        """Forget the digits."""
        self._typed = ""

    def press(self, key: str, quiz: Quiz) -> int | None:
        """The place, counted from 0, to which a key leads; None if it leads nowhere yet.

        Enter, or a digit after which no further one can follow, ends a number; enter alone leads to the first question
        without an answer.
        """
        typed, self._typed = self._typed, ""
        if key == "enter":
            return int(typed) - 1 if typed else next(iter(quiz.open), None)
        number, count = int(typed + key) if key.isdecimal() else 0, len(quiz.asked)
        if not 1 <= number <= count:
            return None
        if 10 * number > count:
            return number - 1
        self._typed = str(number)
        return None


# The hotkeys of a quiz: those that work now, as the line of keys and the help list them.

SKIP = Hotkey("s", "skip", "leave this question unanswered")
_SOLUTION = Hotkey("x", "solution", "show the solution; the question then earns nothing")
UNDO = Hotkey("u", "undo", "undo the last step; verdicts do not change")
_LOOK_BACK = Hotkey("u", "look back", "look at the verdict before this one again")
NEXT = Hotkey("enter", "next", "go on to the next question", also=("space",))
_FORWARD = Hotkey("enter", "forward", "go forward to the next verdict, or to where you were", also=("space",))
_TO_QUESTION = Hotkey("esc", "back", "go back to where you were")
_RETRY = Hotkey(
    "w",
    "wrong ones again",
    "answer again what you got wrong, in a new order, and with new values if a question has any; it does not count",
)
_CALCULATION = Hotkey("p", "calculation", "run the calculation behind the answer, and come back here")
_DEMO_AS_HINT = Hotkey(
    "d", "demo", "run this concept's demo; before the answer it counts as a hint, so a right answer earns half a point"
)
_PREVIOUS = Hotkey("u", "back", "go back to the question before this one, to change its answer")
_FOLLOWING = Hotkey("s", "next", "go to the next question, with or without an answer; you can come back to this one")
END = Hotkey("q", "end", "see which questions have no answer, and end the exam there")
_END_HERE = Hotkey("q", "end", "end here and see the result; everything is saved already")
_END_NOW = Hotkey("q", "end the exam", "end the exam and see the verdicts; no answer can be changed after that")
_TURN = Hotkey("enter", "leave", "show the next page; after the last one, leave")
NEXT_VERDICT = Hotkey("enter", "next verdict", "see the verdict on the next question", also=("space",))
_TO_REVIEW = Hotkey("enter", "back", "back to the result and all verdicts", also=("space",))
LEAVE = Hotkey("q", "leave", "leave; the verdicts stay above the prompt of the shell")
_SURE = ("guess", "unsure", "fairly", "sure")


def _key_line(quiz: Quiz, flag: Hotkey, *, demo: bool) -> list[Hotkey]:
    """The keys that work while no question is answered; `demo` says whether there is one to run."""
    demos = [DEMO] if demo else []
    if quiz.overview:
        first = [f"question {place + 1}" for place in quiz.open[:1]]
        to_first = [Hotkey("enter", does, "go to the first question without an answer") for does in first]
        opens = _number_key(quiz, "go to the question with this number, to change its answer")
        return [*to_first, opens, _PREVIOUS, _END_NOW, HELP]
    if quiz.posed is None:
        opens = _number_key(quiz, "see the verdict on the question with this number alone, and run its proof")
        leave = [_TURN, opens, LEAVE] if quiz.rules.exam else [Hotkey("enter", "leave")]
        return [*leave, *([_RETRY] if quiz.missed else []), *_back(quiz), *_last_proof(quiz), *demos, HELP]
    question = quiz.posed.question
    if quiz.judged:
        go_on = [_FORWARD, _TO_QUESTION] if quiz.looked else [NEXT]
        return [*go_on, *_proof_key(question), *demos, *_back(quiz), flag, HELP, QUIT]
    words = _SURE if chance(question) else ("wrong", *_SURE[1:])  # nobody guesses what is typed
    said = zip(words, confidence_keys(chance(question)).items(), strict=True)
    rest = [_PREVIOUS, HELP, END] if quiz.rules.exam else [*_back(quiz), HELP, QUIT]
    return [*(Hotkey(str(key), f"{word} {confidence:.0%}") for word, (key, confidence) in said), *rest]


def _last_proof(quiz: Quiz) -> list[Hotkey]:
    """The key that proves the last answer; after an exam, each question has its own."""
    if quiz.rules.exam or not quiz.answers:
        return []
    more = "run the proof of your last answer, and come back here; u goes back to the others"
    return [replace(key, more=more) for key in _proof_key(quiz.answers[-1].posed.question)]


def _proof_key(question: Question) -> list[Hotkey]:
    return [_CALCULATION if is_calculation(question) else PROOF] if question.proof else []


def _command_keys(quiz: Quiz, flag: Hotkey, *, demo: bool) -> list[Hotkey]:
    """The keys that work while a question is on screen, besides those that answer it."""
    if quiz.posed is None:
        return []
    if quiz.rules.exam:
        return [*([_PREVIOUS] if quiz.place else []), _FOLLOWING, flag, HELP, END]
    left = max(0, len(quiz.posed.question.hints) - quiz.hints)
    more = f"show a hint ({left} left); after any hint, a right answer earns half a point"
    hint = [Hotkey("h", f"hint ({left})", more)] if left else []
    demos = [_DEMO_AS_HINT] if demo and not quiz.rules.timed else []
    return [*hint, *_back(quiz), _SOLUTION, SKIP, *demos, flag, HELP, QUIT]


def _back(quiz: Quiz) -> list[Hotkey]:
    if quiz.previous and not quiz.looked:
        return [UNDO]
    return [_LOOK_BACK] if quiz.looked < len(quiz.behind) else []


def inside(keys: list[Hotkey], quiz: Quiz, leave: Hotkey) -> list[Hotkey]:
    """The keys of a quiz with the one that leaves: inside another screen, it shows the result first."""
    end = _END_HERE if quiz.answers and leave is not QUIT else leave
    return [end if key is QUIT else key for key in keys]
