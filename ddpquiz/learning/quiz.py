"""One sitting with questions: which are asked, and what each answer does. Old state and event in, new state out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING

from ddpquiz.curriculum.concept import CardLevel, Level
from ddpquiz.curriculum.pose import Posed, pose
from ddpquiz.learning.judge import Verdict, judge

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date, datetime, timedelta

    from ddpquiz.curriculum.concept import Card, Question
    from ddpquiz.learning.schedule import Memory

_HINTED = 0.5  # the credit of a right answer after a hint
_LEVELS = tuple(Level)
_LIKE = {Level.EASY: CardLevel.BEGINNER, Level.MEDIUM: CardLevel.INTERMEDIATE, Level.HARD: CardLevel.ADVANCED}


class Act(Enum):
    """What can happen in a quiz besides an answer."""

    HINT = auto()
    SOLVE = auto()  # give up and see the solution
    SKIP = auto()
    NEXT = auto()
    UNDO = auto()
    BACK = auto()  # the learner returns from a demo or a proof
    STOP = auto()


@dataclass(frozen=True, slots=True)
class Given:
    """An answer as it was given."""

    text: str


Event = Act | Given


@dataclass(frozen=True, slots=True)
class Answer:
    """A question answered; `solved` says that the solution was asked for instead, `told` that it was known already."""

    posed: Posed
    given: str
    verdict: Verdict
    hints: int
    solved: bool
    at: datetime
    took: timedelta
    told: bool = False

    @property
    def right(self) -> bool:
        """Whether it counts as right: given after the solution was shown, it does not."""
        return self.verdict.right and not self.solved and not self.told

    @property
    def credit(self) -> float:
        """What the answer is worth: a hint halves it."""
        if not self.right:
            return 0.0
        return _HINTED if self.hints else 1.0


@dataclass(frozen=True, slots=True)
class Quiz:
    """Where a quiz stands: the question at `place` is on screen, with the verdict on it if `judged`."""

    asked: tuple[Posed, ...]
    since: datetime  # when this question came on screen
    place: int = 0
    hints: int = 0  # shown so far, of this question
    unclear: str = ""  # why what was just typed is no answer
    judged: bool = False
    stopped: bool = False
    retry: bool = False  # the questions were answered wrong in this very sitting
    answers: tuple[Answer, ...] = ()
    seen: frozenset[int] = frozenset()  # the places of the questions whose verdict was shown; undo takes none away
    previous: Quiz | None = field(default=None, repr=False, compare=False)  # what undo goes back to

    @property
    def posed(self) -> Posed | None:
        """The question on screen, or None when the quiz is over."""
        return None if self.stopped or self.place >= len(self.asked) else self.asked[self.place]

    @property
    def answer(self) -> Answer | None:
        """The answer to the question on screen, once it was judged."""
        return self.answers[-1] if self.judged else None

    @property
    def told(self) -> bool:
        """Whether the answer to the question on screen was shown before, so that giving it earns nothing."""
        return self.posed is not None and not self.judged and self.place in self.seen

    @property
    def missed(self) -> tuple[Question, ...]:
        """The questions that were not answered right, in the order in which they were asked."""
        return tuple(answer.posed.question for answer in self.answers if not answer.right)


def choose(
    questions: Sequence[Question], count: int, dice: random.Random, known: Mapping[str, int] | None = None
) -> list[Question]:
    """Choose questions so that concepts, levels and kinds are spread evenly; easier ones come first.

    `known` tells how often a question was answered right before: those wait for the others.
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


def begin(questions: Iterable[Question], dice: random.Random, at: datetime, *, retry: bool = False) -> Quiz:
    """Return a quiz with the first question on screen."""
    return Quiz(tuple(pose(question, dice) for question in questions), at, retry=retry)


def step(quiz: Quiz, event: Event, at: datetime) -> Quiz:
    """Return what a quiz becomes by an event; one that means nothing now changes nothing."""
    posed = quiz.posed
    match event:
        case Act.UNDO if quiz.previous:
            return replace(quiz.previous, since=at, unclear="", seen=quiz.seen)
        case Act.BACK:
            return replace(quiz, since=at)
        case _ if posed is None:
            return quiz
        case Act.STOP:
            return replace(quiz, stopped=True)
        case Act.NEXT if quiz.judged:
            return _advanced(quiz, at)
        case _ if quiz.judged:
            return quiz
        case Act.SKIP:
            return replace(_advanced(quiz, at), previous=quiz)
        case Act.HINT if quiz.hints < len(posed.question.hints):
            return replace(quiz, hints=quiz.hints + 1, unclear="")
        case Act.SOLVE:
            return _answered(quiz, Answer(posed, "", Verdict(right=False), quiz.hints, True, at, at - quiz.since))
        case Given(text):
            verdict = judge(posed, text)
            if verdict.unclear:
                return replace(quiz, unclear=verdict.unclear)
            return _answered(quiz, Answer(posed, text, verdict, quiz.hints, False, at, at - quiz.since, quiz.told))
    return quiz


def news(old: Quiz, new: Quiz) -> tuple[Answer | None, Answer | None]:
    """Return the answer that a step added and the one that it took back: what the log is to learn."""
    count, before = len(new.answers), len(old.answers)
    return new.answers[-1] if count > before else None, old.answers[-1] if count < before else None


@dataclass(frozen=True, slots=True)
class Score:
    """What a group of questions came to; skipped ones earn nothing and are counted apart."""

    credit: float
    right: int
    answered: int
    asked: int


def scores(quiz: Quiz, group: str) -> dict[str, Score]:
    """Return the score by `concept`, `level` or `kind`, or by `""` of the whole quiz, in the order of asking."""
    answers = {id(answer.posed): answer for answer in quiz.answers}
    groups: dict[str, list[Posed]] = {}
    for posed in quiz.asked:
        groups.setdefault(str(getattr(posed.question, group)) if group else "", []).append(posed)
    return {name: _score([answers.get(id(posed)) for posed in members]) for name, members in groups.items()}


def wanting(quiz: Quiz) -> str | None:
    """Return the concept that lost most credit, or None when nothing was wrong."""
    lost = Counter[str]()
    for answer in quiz.answers:
        if answer.credit < 1:
            lost[answer.posed.question.concept] += round(2 * (1 - answer.credit))
    return max(sorted(lost), key=lambda concept: lost[concept], default=None)


def card_to_call(question: Question, cards: Sequence[Card], memories: Mapping[str, Memory], day: date) -> str | None:
    """Return the card of the concept that a wrong answer makes due: of the question's level if it can be.

    Cards that are due already, or were recalled today, are left alone as long as there are others.
    """

    def rank(card: Card) -> tuple[bool, bool, bool]:
        memory = memories.get(card.key)
        due, today = (memory.due <= day, memory.last == day) if memory else (False, False)
        return due, today, card.level is not _LIKE[question.level]

    best = min((card for card in cards if card.concept == question.concept), key=rank, default=None)
    return best.key if best else None


def _advanced(quiz: Quiz, at: datetime) -> Quiz:
    return replace(quiz, place=quiz.place + 1, hints=0, unclear="", judged=False, since=at)


def _answered(quiz: Quiz, answer: Answer) -> Quiz:
    seen = quiz.seen | {quiz.place}
    return replace(quiz, answers=(*quiz.answers, answer), judged=True, unclear="", seen=seen, previous=quiz)


def _score(answers: Sequence[Answer | None]) -> Score:
    given = [answer for answer in answers if answer]
    return Score(
        credit=sum(answer.credit for answer in given),
        right=sum(answer.right for answer in given),
        answered=len(given),
        asked=len(answers),
    )
