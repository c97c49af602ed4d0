"""One quiz or exam: which of the allowed questions it asks, and what each answer and key does to it.

Old state, event and time in; new state out, with the answer to save. `Answer.credit` is what an answer is worth after
hints.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum, auto

from ddpquiz.curriculum.concept import Level, Question
from ddpquiz.curriculum.posed_question import Posed, pose
from ddpquiz.learning.judge import Verdict, chance, judge
from ddpquiz.learning.log_rows import UNCHANGED, Change
from ddpquiz.learning.mastery import Belief, Label

_HINTED = 0.5  # the credit of a right answer after a hint


@dataclass(frozen=True, slots=True)
class Answer:
    """An answered question; `gave_up` is true if the learner asked for the solution instead."""

    posed: Posed
    given: str
    verdict: Verdict
    at: datetime
    took: timedelta
    _: KW_ONLY
    hints: int = 0
    gave_up: bool = False
    late: bool = False  # the time was over; with an empty text it is not an answer, and only the verdict is shown
    confidence: float | None = None

    @property
    def right(self) -> bool:
        return self.verdict.right and not self.gave_up

    @property
    def credit(self) -> float:
        """The credit from 0 to 1: with any number of hints, a right answer earns half."""
        if not self.right:
            return 0.0
        return _HINTED if self.hints else 1.0


class QuizAction(Enum):
    """What can happen in a quiz besides an answer."""

    HINT = auto()
    GIVE_UP = auto()  # stop trying and see the solution
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
class SetConfidence:
    """How sure the learner is of the answer just given, from 0 to 1."""

    value: float | None  # None: the learner does not say


@dataclass(frozen=True, slots=True)
class TimeUp:
    """The time for this question is over; `text` is what stood there as an answer."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class GoTo:
    """In an exam: show the question at a place, counted from 0."""

    place: int


Event = QuizAction | Given | SetConfidence | TimeUp | GoTo


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
    last: Answer | None = None  # what undo takes back
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
        """The time that is left for the question on screen, or for the whole exam; None when no clock runs."""
        if self.rules.timed is None or self.over:
            return None
        if self.rules.exam:
            return max(timedelta(0), self.began + self.most * self.rules.timed - at)
        return None if self.judged or self.pending else max(timedelta(0), self.since + self.rules.timed - at)

    @property
    def missed(self) -> tuple[Question, ...]:
        return tuple(answer.posed.question for answer in self.answers if not answer.right)


Step = tuple[Quiz, Change[Answer]]  # the quiz after an event, and the answer to save


# Which questions a quiz asks: chosen beforehand, or one by one in an adaptive quiz.

_LEVELS = tuple(Level)


def choose_questions(
    questions: Sequence[Question], count: int, dice: random.Random, known: Mapping[str, int] | None = None
) -> list[Question]:
    """Choose questions so that concepts, levels and kinds are spread evenly; easier ones come first.

    `known` is how often a question was answered right before: those come after the others.
    """
    known = known or {}
    left = list(questions)
    dice.shuffle(left)
    concepts, levels, kinds = Counter[str](), Counter[str](), Counter[str]()
    chosen: list[Question] = []
    while left and len(chosen) < count:
        best = min(left, key=lambda q: (concepts[q.concept], levels[q.level], known.get(q.key, 0), kinds[q.kind]))
        left.remove(best)
        chosen.append(best)
        concepts[best.concept] += 1
        levels[best.level] += 1
        kinds[best.kind] += 1
    return sorted(chosen, key=lambda question: _LEVELS.index(question.level))


def _ask_next(quiz: Quiz) -> Quiz:
    """Add the most informative question to an adaptive quiz that has asked all, unless it knows enough."""
    if quiz.place < len(quiz.asked) or len(quiz.asked) >= quiz.rules.adaptive:
        return quiz
    answers = [(answer.posed.question, answer.credit) for answer in quiz.answers]
    best = most_informative(quiz.pool, quiz.asked, answers)
    return replace(quiz, asked=(*quiz.asked, best)) if best else quiz


def most_informative(
    pool: Iterable[Posed], asked: Sequence[Posed], answers: Iterable[tuple[Question, float]]
) -> Posed | None:
    """The question of a pool that is most informative about its concept, by the answers of this sitting alone.

    `answers` are questions with the credit that was earned. Concepts that are clearly strong or weak are not asked
    about any more; None when no question is left.
    """
    beliefs: dict[str, Belief] = defaultdict(Belief)
    counts = Counter[str]()
    for question, credit in answers:
        beliefs[question.concept] = beliefs[question.concept].after(question.level, chance(question), credit)
        counts[question.concept] += 1
    known = {name for name in counts if beliefs[name].label(counts[name]) in (Label.STRONG, Label.WEAK)}
    done = {posed.question.key for posed in asked}
    open_ = [one for one in pool if one.question.key not in done and one.question.concept not in known]

    def information(posed: Posed) -> float:
        question = posed.question
        return beliefs[question.concept].information(question.level, chance(question))

    return max(open_, key=information, default=None)


def begin(
    questions: Iterable[Question], dice: random.Random, at: datetime, *, retry: bool = False, rules: Rules = PLAIN
) -> Quiz:
    """A quiz with the first question on screen."""
    posed = tuple(pose(question, dice) for question in questions)
    if not rules.adaptive:
        return Quiz(posed, at, at, retry=retry, rules=rules)
    rules = replace(rules, adaptive=min(rules.adaptive, len(posed)))
    return _ask_next(Quiz((), at, at, rules=rules, pool=posed))


def step(quiz: Quiz, event: Event, at: datetime) -> Step:
    """The quiz after an event, and the answer to save; an event that means nothing now changes nothing."""
    return (_step_of_exam if quiz.rules.exam else _step_of_quiz)(quiz, event, at)


def _step_of_quiz(quiz: Quiz, event: Event, at: datetime) -> Step:
    """One question after the other: each answer gets its verdict, and is final with that."""
    posed = quiz.posed
    match event:
        case QuizAction.UNDO:
            return _undone(quiz, at)
        case QuizAction.DEMO if posed and not quiz.judged:
            return replace(_hinted(quiz, posed, max(1, len(posed.question.hints))), since=at), UNCHANGED
        case QuizAction.BACK | QuizAction.DEMO:
            return replace(quiz, since=at), UNCHANGED
        case QuizAction.STOP if posed:  # an answer counts without a confidence
            after, change = _judged(quiz, quiz.pending) if quiz.pending else (quiz, UNCHANGED)
            return _undoable(replace(after, stopped=True, looked=0, last=change.added), quiz), change
        case QuizAction.NEXT if quiz.looked:
            return replace(quiz, looked=quiz.looked - 1, since=at), UNCHANGED
        case QuizAction.NEXT if quiz.judged:
            return _next(quiz, at), UNCHANGED
        case SetConfidence(value) if quiz.pending and not quiz.judged:
            return _judged(quiz, replace(quiz.pending, confidence=value))
        case _ if posed and not quiz.judged and not quiz.pending:
            return _step_of_question(quiz, posed, event, at)
    return quiz, UNCHANGED


def _step_of_question(quiz: Quiz, posed: Posed, event: Event, at: datetime) -> Step:
    """The quiz after an event while a question waits for its answer."""
    match event:
        case QuizAction.SKIP:
            return _undoable(_next(quiz, at), quiz), UNCHANGED
        case QuizAction.HINT if quiz.hints < len(posed.question.hints):
            return _hinted(quiz, posed, quiz.hints + 1), UNCHANGED
        case QuizAction.GIVE_UP:
            took = at - quiz.since
            return _judged(quiz, Answer(posed, "", Verdict(right=False), at, took, hints=quiz.hints, gave_up=True))
        case TimeUp(text):
            return _out_of_time(replace(quiz, late=quiz.late | {quiz.place}), posed, text, at)
        case Given(text):
            return _given(quiz, _answer(quiz, posed, text, at), at)
    return quiz, UNCHANGED


def _step_of_exam(quiz: Quiz, event: Event, at: datetime) -> Step:
    """The learner goes back and forward, and answers replace each other; all are final at the end."""
    match event:
        case _ if quiz.stopped:
            return quiz, UNCHANGED
        case QuizAction.UNDO:
            before = replace(quiz, pending=None) if quiz.pending else _go_to(quiz, max(0, quiz.place - 1), at)
            return before, UNCHANGED
        case QuizAction.STOP | QuizAction.OVERVIEW | GoTo():  # an answer counts without a confidence
            after, change = _recorded(quiz, quiz.pending)
            if event is QuizAction.STOP:
                return replace(after, stopped=True), change
            return _go_to(after, event.place if isinstance(event, GoTo) else len(quiz.asked), at), change
        case SetConfidence(value) if quiz.pending:
            after, change = _recorded(quiz, replace(quiz.pending, confidence=value))
            return _next(after, at), change
        case QuizAction.SKIP if quiz.posed and not quiz.pending:
            return _next(quiz, at), UNCHANGED
        case TimeUp(text):
            return _exam_out_of_time(quiz, text, at)
        case Given(text) if quiz.posed and not quiz.pending:
            if quiz.given and quiz.given.given == text:
                return _next(quiz, at), UNCHANGED
            return _given(quiz, _answer(quiz, quiz.posed, text, at), at)
    return quiz, UNCHANGED


def unanswered_as_unknown(exam: Quiz, at: datetime) -> tuple[Answer, ...]:
    """What an exam that has ended says of the questions without an answer: they are not known.

    An exam in which nothing was answered says nothing.
    """
    places = exam.open if exam.answers else ()
    not_known = Verdict(right=False)
    return tuple(Answer(exam.asked[place], "", not_known, at, timedelta(0), gave_up=True) for place in places)


def _given(quiz: Quiz, answer: Answer, at: datetime) -> Step:
    """Accept an answer, after asking how sure the learner is if the rules say so; a text may not be an answer."""
    if answer.verdict.unclear:
        return replace(quiz, unclear=answer.verdict.unclear), UNCHANGED
    if quiz.rules.confidence:
        after = replace(quiz, pending=answer, unclear="")
        return (after if quiz.rules.exam else _undoable(after, quiz)), UNCHANGED
    if not quiz.rules.exam:
        return _judged(quiz, answer)
    after, change = _recorded(quiz, answer)
    return _next(after, at), change


def _judged(quiz: Quiz, answer: Answer) -> Step:
    """Record an answer, and show the verdict on it."""
    after, change = _recorded(quiz, answer)
    return replace(after, answer=answer, previous=None, last=None), change


def _recorded(quiz: Quiz, answer: Answer | None) -> Step:
    """Record an answer in place of the one that its question had."""
    if answer is None:
        return quiz, UNCHANGED
    before = quiz.answer_to(answer.posed)
    kept = (each for each in quiz.answers if each is not before)
    return replace(quiz, answers=(*kept, answer), pending=None, unclear=""), Change(answer, before)


def _next(quiz: Quiz, at: datetime) -> Quiz:
    """Go on to the next question, which an adaptive quiz chooses now."""
    return _ask_next(_go_to(quiz, quiz.place + 1, at))


def _go_to(quiz: Quiz, place: int, at: datetime) -> Quiz:
    """Show the question at a place, or what comes behind the last one."""
    place = min(place, len(quiz.asked))
    return replace(quiz, place=place, unclear="", answer=None, pending=None, since=at, previous=None, last=None)


def _undone(quiz: Quiz, at: datetime) -> Step:
    """Go back to before the last step, or look at an earlier verdict; hints that were seen stay seen."""
    if quiz.previous and not quiz.looked:
        return replace(quiz.previous, since=at, unclear="", hinted=quiz.hinted), Change(removed=quiz.last)
    return replace(quiz, looked=min(quiz.looked + 1, len(quiz.behind))), UNCHANGED


def _undoable(after: Quiz, before: Quiz) -> Quiz:
    """Let undo lead back, but not to a question whose clock ran."""
    return replace(after, previous=None if after.rules.timed else before)


def _hinted(quiz: Quiz, posed: Posed, hints: int) -> Quiz:
    return replace(quiz, hinted={**quiz.hinted, id(posed): hints}, unclear="")


def _answer(quiz: Quiz, posed: Posed, text: str, at: datetime, *, late: bool = False) -> Answer:
    """Judge a text as the answer to the question on screen; the verdict may be that it is not an answer."""
    return Answer(posed, text, judge(posed, text), at, at - quiz.since, hints=quiz.hints, late=late)


def _out_of_time(quiz: Quiz, posed: Posed, text: str, at: datetime) -> Step:
    """Accept the text that was typed so far; if it is not an answer, the question counts as not answered."""
    answer = _answer(quiz, posed, text, at, late=True)
    if answer.verdict.unclear:  # the solution is shown all the same
        stand_in = Answer(posed, "", Verdict(right=False), at, timedelta(0), late=True)
        return replace(quiz, answer=stand_in, unclear="", previous=None, last=None), UNCHANGED
    return _given(quiz, answer, at)


def _exam_out_of_time(quiz: Quiz, text: str, at: datetime) -> Step:
    """End an exam whose time is over; what was entered is the answer to the question on screen."""
    answer = quiz.pending
    if quiz.posed and not answer and (quiz.given is None or quiz.given.given != text):
        entered = _answer(quiz, quiz.posed, text, at, late=True)
        answer = None if entered.verdict.unclear else entered
    after, change = _recorded(quiz, answer)
    ended = replace(after, stopped=True)
    return replace(ended, late=frozenset(ended.open)), change
