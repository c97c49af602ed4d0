"""The state of a quiz, and the events that change it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto

from ddpquiz.curriculum.concept import Question
from ddpquiz.curriculum.posed_question import Posed
from ddpquiz.learning.graded_answer import Answer
from ddpquiz.learning.judge import Verdict, judge


class QuizAction(Enum):
    """What can happen in a quiz besides an answer."""

    HINT = auto()
    SOLVE = auto()  # stop trying and see the solution
    SKIP = auto()
    NEXT = auto()
    UNDO = auto()
    DEMO = auto()  # the learner returns from the demo of the concept; before the answer that counts as all hints
    BACK = auto()  # the learner returns from a proof; the time away does not count
    OVERVIEW = auto()  # in an exam: see which questions have no answer
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

    timed: timedelta | None = None  # for each question, which cannot be undone; an exam as a whole has the sum
    exam: bool = False  # no verdicts, hints or solutions before the end; until then every answer can be changed
    confidence: bool = False  # before each verdict the learner says how sure they are
    adaptive: int = 0  # ask at most so many questions, each time the most informative one; 0: all that were chosen


PLAIN = Rules()


@dataclass(frozen=True, slots=True)
class Quiz:
    """Where a quiz stands: the question at `place` is on screen, with the verdict on it if `judged`.

    In an adaptive quiz `asked` grows with each question.
    """

    asked: tuple[Posed, ...]
    since: datetime  # when this question came on screen
    began: datetime  # the quiz as a whole
    place: int = 0
    hinted: Mapping[int, int] = field(default_factory=dict)  # how many hints were shown, by the id of each `Posed`
    unclear: str = ""  # why the last text is not an answer
    answer: Answer | None = None  # the one whose verdict is on screen
    pending: Answer | None = None  # answered, and the learner is asked how sure they are
    stopped: bool = False
    retry: bool = False  # the questions were answered wrong in this very sitting
    rules: Rules = PLAIN
    pool: tuple[Posed, ...] = ()  # the questions that an adaptive quiz chooses from
    answers: tuple[Answer, ...] = ()
    late: frozenset[int] = frozenset()  # the places of the questions whose time was over
    looked: int = 0  # how many verdicts back the learner looks; that changes nothing
    previous: Quiz | None = field(default=None, repr=False, compare=False)  # where undo leads; never past a verdict

    @property
    def posed(self) -> Posed | None:
        """The question on screen, or None when the quiz is over."""
        if self.looked:
            return self.behind[-self.looked].posed
        return None if self.stopped or self.place >= len(self.asked) else self.asked[self.place]

    @property
    def hints(self) -> int:
        """How many hints of the question that is asked now were shown, also before it was skipped and came back."""
        return self.hinted.get(id(self.asked[self.place]), 0) if self.place < len(self.asked) else 0

    @property
    def over(self) -> bool:
        """Whether no question is left and the result is shown."""
        return self.posed is None and not self.overview

    @property
    def overview(self) -> bool:
        """Whether the end of an exam is reached, where the learner sees which questions are open, and ends it."""
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
        """The answers before the question on screen whose verdicts can be looked at again."""
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


def judged_answer(quiz: Quiz, posed: Posed, text: str, at: datetime, *, late: bool = False) -> Answer:
    """Judge a text as the answer to the question on screen; the verdict may be that it is not an answer."""
    return Answer(posed, text, judge(posed, text), at, at - quiz.since, hints=quiz.hints, late=late)


def unanswered(posed: Posed, at: datetime) -> Answer:
    """Return a stand-in for a missing answer, so that the solution can be shown."""
    return Answer(posed, "", Verdict(right=False), at, timedelta(0), late=True)
