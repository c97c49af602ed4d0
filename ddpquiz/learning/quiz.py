"""One quiz: what each answer and key does to it. Old state and event in, new state out."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum, auto

from ddpquiz.curriculum.concept import Question
from ddpquiz.curriculum.posed import Posed, pose
from ddpquiz.learning import question_selection
from ddpquiz.learning.judge import Verdict, judge

_HINTED = 0.5  # the credit of a right answer after a hint


class QuizAction(Enum):
    """What can happen in a quiz besides an answer."""

    HINT = auto()
    SOLVE = auto()  # stop trying and see the solution
    SKIP = auto()
    NEXT = auto()
    UNDO = auto()
    DEMO = auto()  # the learner returns from the demo of the concept; before the answer that counts as all hints
    BACK = auto()  # the learner returns from a proof; the time away does not count
    OVERVIEW = auto()  # in an exam: see what is not answered yet
    STOP = auto()


@dataclass(frozen=True, slots=True)
class Given:
    """An answer as it was typed or chosen."""

    text: str


@dataclass(frozen=True, slots=True)
class SetSureness:
    """How sure the learner is of the answer just given, from 0 to 1."""

    of_it: float | None  # None: the learner does not say


@dataclass(frozen=True, slots=True)
class Late:
    """The time for this question is over; `text` is what stood there as an answer."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class GoTo:
    """In an exam: show the question at a place, counted from 0."""

    place: int


Event = QuizAction | Given | SetSureness | Late | GoTo


@dataclass(frozen=True, slots=True)
class Rules:
    """How a quiz is played."""

    timed: timedelta | None = None  # for each question, with no way back; an exam has the sum of them as a whole
    exam: bool = False  # no verdict, hint or solution before the end, and until then every answer can be changed
    confidence: bool = False  # before each verdict the learner says how sure they are
    adaptive: int = 0  # ask so many questions at most, each time the one that tells most; 0: those that were chosen


_PLAIN = Rules()


@dataclass(frozen=True, slots=True)
class Answer:
    """An answered question; `solved` is true if the learner asked for the solution instead."""

    posed: Posed
    given: str
    verdict: Verdict
    hints: int
    solved: bool
    at: datetime
    took: timedelta
    late: bool = False  # the time was over; with an empty text it is not an answer, and only the verdict is shown
    confidence: float | None = None

    @property
    def right(self) -> bool:
        return self.verdict.right and not self.solved

    @property
    def credit(self) -> float:
        """The credit from 0 to 1: with any number of hints, a right answer earns half."""
        if not self.right:
            return 0.0
        return _HINTED if self.hints else 1.0


@dataclass(frozen=True, slots=True)
class Quiz:
    """Where a quiz stands: the question at `place` is on screen, with the verdict on it if `judged`.

    In an adaptive quiz `asked` grows with each question.
    """

    asked: tuple[Posed, ...]
    since: datetime  # when this question came on screen
    began: datetime  # the quiz as a whole
    place: int = 0
    hints: int = 0  # shown so far, of this question
    unclear: str = ""  # why the last text is not an answer
    answer: Answer | None = None  # the one whose verdict is on screen
    pending: Answer | None = None  # answered, and the learner is asked how sure they are
    stopped: bool = False
    retry: bool = False  # the questions were answered wrong in this very sitting
    rules: Rules = _PLAIN
    pool: tuple[Posed, ...] = ()  # the questions that an adaptive quiz chooses from
    answers: tuple[Answer, ...] = ()
    late: frozenset[int] = frozenset()  # the places of the questions whose time was over
    looked: int = 0  # how many verdicts back the learner looks; that changes nothing
    previous: Quiz | None = field(default=None, repr=False, compare=False)  # where undo leads; past no verdict

    @property
    def posed(self) -> Posed | None:
        """The question on screen, or None when the quiz is over."""
        if self.looked:
            return self.behind[-self.looked].posed
        return None if self.stopped or self.place >= len(self.asked) else self.asked[self.place]

    @property
    def over(self) -> bool:
        """Whether no question is left, and what the quiz came to is shown."""
        return self.posed is None and not self.overview

    @property
    def overview(self) -> bool:
        """Whether the end of an exam is reached, where the learner sees what is not answered, and ends it."""
        return self.rules.exam and not self.stopped and self.place >= len(self.asked)

    @property
    def given(self) -> Answer | None:
        """In an exam: the answer that the question on screen has so far."""
        return self.answer_to(self.posed) if self.rules.exam and self.posed else None

    def answer_to(self, posed: Posed) -> Answer | None:
        return next((answer for answer in self.answers if answer.posed is posed), None)

    @property
    def open(self) -> tuple[int, ...]:
        """The places of the questions that were asked and have no answer."""
        answered = {id(answer.posed) for answer in self.answers}
        return tuple(place for place, posed in enumerate(self.asked) if id(posed) not in answered)

    @property
    def shown(self) -> Answer | None:
        """The answer whose verdict is on screen: the last one, or an earlier one that is looked at again."""
        return self.behind[-self.looked] if self.looked else self.answer

    @property
    def judged(self) -> bool:
        return self.shown is not None

    @property
    def number(self) -> int:
        """The number of the question on screen, from 1."""
        if not self.looked:
            return self.place + 1
        return next(number for number, posed in enumerate(self.asked, 1) if posed is self.posed)

    @property
    def behind(self) -> tuple[Answer, ...]:
        """The answers before what is asked now whose verdict was shown, so that it may be looked at again."""
        if self.rules.exam or (self.rules.timed and self.answer is None):  # a clock does not stop for a look back
            return ()
        return self.answers[:-1] if self.answers[-1:] == (self.answer,) else self.answers

    @property
    def most(self) -> int:
        """How many questions there are at most."""
        return self.rules.adaptive or len(self.asked)

    def left(self, at: datetime) -> timedelta | None:
        """Return the time that is left for the question on screen, or for the whole exam; None when no clock runs."""
        if self.rules.timed is None or self.over:
            return None
        if self.rules.exam:
            return max(timedelta(0), self.began + self.most * self.rules.timed - at)
        return None if self.judged or self.pending else max(timedelta(0), self.since + self.rules.timed - at)

    @property
    def missed(self) -> tuple[Question, ...]:
        return tuple(answer.posed.question for answer in self.answers if not answer.right)


def begin(
    questions: Iterable[Question], dice: random.Random, at: datetime, *, retry: bool = False, rules: Rules = _PLAIN
) -> Quiz:
    """Return a quiz with the first question on screen."""
    posed = tuple(pose(question, dice) for question in questions)
    if not rules.adaptive:
        return Quiz(posed, at, at, retry=retry, rules=rules)
    rules = replace(rules, adaptive=min(rules.adaptive, len(posed)))
    return _dealt(Quiz((), at, at, rules=rules, pool=posed))


def step(quiz: Quiz, event: Event, at: datetime) -> Quiz:
    """Return the quiz after an event; an event that means nothing now changes nothing."""
    if quiz.rules.exam:
        return _exam_step(quiz, event, at)
    posed = quiz.posed
    match event:
        case QuizAction.UNDO if quiz.previous and not quiz.looked:
            return replace(quiz.previous, since=at, unclear="")
        case QuizAction.UNDO:
            return replace(quiz, looked=min(quiz.looked + 1, len(quiz.behind)))
        case QuizAction.NEXT if quiz.looked:
            return replace(quiz, looked=quiz.looked - 1, since=at)
        case QuizAction.DEMO if posed and not quiz.judged:
            return replace(quiz, since=at, hints=max(1, len(posed.question.hints)))
        case QuizAction.BACK | QuizAction.DEMO:
            return replace(quiz, since=at)
        case QuizAction.STOP if posed:
            after = _answered(quiz, quiz.pending) if quiz.pending else quiz  # an answer counts, however sure
            return _reached(replace(after, stopped=True, looked=0), quiz)
        case QuizAction.NEXT if quiz.judged:
            return _advanced(quiz, at)
        case _ if posed is None or quiz.judged:
            return quiz
        case SetSureness(of_it) if quiz.pending:
            return _answered(quiz, replace(quiz.pending, confidence=of_it))
        case _ if quiz.pending:
            return quiz
        case QuizAction.SKIP:
            return _reached(_advanced(quiz, at), quiz)
        case QuizAction.HINT if quiz.hints < len(posed.question.hints):
            return replace(quiz, hints=quiz.hints + 1, unclear="")
        case QuizAction.SOLVE:
            return _answered(quiz, Answer(posed, "", Verdict(right=False), quiz.hints, True, at, at - quiz.since))
        case Late(text):
            return _out_of_time(replace(quiz, late=quiz.late | {quiz.place}), posed, text, at)
        case Given(text):
            verdict = judge(posed, text)
            if verdict.unclear:
                return replace(quiz, unclear=verdict.unclear)
            return _given(quiz, Answer(posed, text, verdict, quiz.hints, False, at, at - quiz.since))
    return quiz


def _exam_step(quiz: Quiz, event: Event, at: datetime) -> Quiz:
    """Return what an exam becomes by an event: the learner goes back and forward, and answers replace each other."""
    posed = quiz.posed
    match event:
        case _ if quiz.stopped:
            return quiz
        case Late(text):
            return _end_of_exam(quiz, text, at)
        case QuizAction.UNDO if quiz.pending:
            return replace(quiz, pending=None)
        case QuizAction.UNDO:
            return _moved(quiz, max(0, quiz.place - 1), at)
        case QuizAction.STOP:
            return replace(_recorded(quiz, quiz.pending), stopped=True)
        case GoTo(place):
            return _moved(_recorded(quiz, quiz.pending), place, at)
        case QuizAction.OVERVIEW:
            return _moved(_recorded(quiz, quiz.pending), len(quiz.asked), at)
        case SetSureness(of_it) if quiz.pending:
            return _went_on(_recorded(quiz, replace(quiz.pending, confidence=of_it)), at)
        case _ if posed is None or quiz.pending:
            return quiz
        case QuizAction.SKIP:
            return _went_on(quiz, at)
        case Given(text) if quiz.given and quiz.given.given == text:
            return _went_on(quiz, at)
        case Given(text):
            verdict = judge(posed, text)
            if verdict.unclear:
                return replace(quiz, unclear=verdict.unclear)
            answer = Answer(posed, text, verdict, 0, False, at, at - quiz.since)
            if quiz.rules.confidence:
                return replace(quiz, pending=answer, unclear="")
            return _went_on(_recorded(quiz, answer), at)
    return quiz


def _moved(quiz: Quiz, place: int, at: datetime) -> Quiz:
    """Show the question of an exam at a place, or the overview behind the last one."""
    return replace(quiz, place=min(place, len(quiz.asked)), unclear="", pending=None, since=at)


def _went_on(quiz: Quiz, at: datetime) -> Quiz:
    """Go on to the next question of an exam, which an adaptive one chooses now."""
    return _dealt(_moved(quiz, quiz.place + 1, at))


def _recorded(quiz: Quiz, answer: Answer | None) -> Quiz:
    """Put an answer in place of the one that its question had in an exam."""
    if answer is None:
        return quiz
    others = (each for each in quiz.answers if each.posed is not answer.posed)
    return replace(quiz, answers=(*others, answer), pending=None, unclear="")


def _end_of_exam(quiz: Quiz, text: str, at: datetime) -> Quiz:
    """End an exam whose time is over; what stands there is the answer to the question on screen."""
    posed, answer = quiz.posed, quiz.pending
    verdict = judge(posed, text) if posed and not answer else None
    if posed and verdict and not verdict.unclear and (quiz.given is None or quiz.given.given != text):
        answer = Answer(posed, text, verdict, 0, False, at, at - quiz.since, late=True)
    ended = replace(_recorded(quiz, answer), stopped=True)
    return replace(ended, late=frozenset(ended.open))


def unanswered(posed: Posed, at: datetime) -> Answer:
    """Return a stand-in for a missing answer, so that the solution can be shown."""
    return Answer(posed, "", Verdict(right=False), 0, False, at, timedelta(0), late=True)


def news(old: Quiz, new: Quiz) -> tuple[Answer | None, Answer | None]:
    """Return the answer that a step added and the one that it removed, for the log."""
    now, before = new.answers[-1:], old.answers
    added = now[0] if now and not any(answer is now[0] for answer in before) else None
    after = {id(answer) for answer in new.answers}
    return added, next((answer for answer in before if id(answer) not in after), None)


def _advanced(quiz: Quiz, at: datetime) -> Quiz:
    after = replace(quiz, place=quiz.place + 1, hints=0, unclear="", answer=None, pending=None, since=at, previous=None)
    return _dealt(after)


def _dealt(quiz: Quiz) -> Quiz:
    """Add the most informative question to an adaptive quiz that has asked all, unless it knows enough."""
    if quiz.place < len(quiz.asked) or len(quiz.asked) >= quiz.rules.adaptive:
        return quiz
    best = question_selection.most_informative(
        quiz.pool, quiz.asked, [(answer.posed.question, answer.credit) for answer in quiz.answers]
    )
    return replace(quiz, asked=(*quiz.asked, best)) if best else quiz


def _given(quiz: Quiz, answer: Answer) -> Quiz:
    """Accept an answer, after asking how sure the learner is if the rules say so."""
    if quiz.rules.confidence:
        return _reached(replace(quiz, pending=answer, unclear=""), quiz)
    return _answered(quiz, answer)


def _answered(quiz: Quiz, answer: Answer) -> Quiz:
    """Record an answer, and show the verdict on it."""
    return replace(quiz, answers=(*quiz.answers, answer), answer=answer, pending=None, unclear="", previous=None)


def _reached(after: Quiz, before: Quiz) -> Quiz:
    """Let undo lead back, but not to a question whose clock ran."""
    return replace(after, previous=None if after.rules.timed else before)


def _out_of_time(quiz: Quiz, posed: Posed, text: str, at: datetime) -> Quiz:
    """Accept the text that was typed so far; if it is not an answer, the question counts as not answered."""
    verdict = judge(posed, text)
    if not verdict.unclear:
        return _given(quiz, Answer(posed, text, verdict, quiz.hints, False, at, at - quiz.since, late=True))
    return replace(quiz, answer=unanswered(posed, at), unclear="", previous=None)
