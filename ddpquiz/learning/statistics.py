"""Statistics of a learner: recall, forecast, study days, time, calibration, strengths and misconceptions."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from enum import Enum
from functools import cache

from ddpquiz.curriculum.concept import Concept
from ddpquiz.learning.answers import Misconception, beliefs
from ddpquiz.learning.lab_passes import LabStanding
from ddpquiz.learning.mastery import Label, Strength, strengths
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Grade
from ddpquiz.learning.standing import streak
from ddpquiz.learning.study import coming_again, due_now, due_soon

AHEAD = 14  # days of the forecast
LATELY = 30  # days
_MATURE = 21  # days between two reviews that make a card mature
_Z = 1.96  # standard deviations on each side of the middle 95%


@dataclass(frozen=True, slots=True)
class Share:
    """A share, and its 95% confidence interval (Wilson's)."""

    count: int
    of: int

    @property
    def value(self) -> float | None:
        return self.count / self.of if self.of else None

    @property
    def low(self) -> float:
        return max(0.0, self._bound(-1))

    @property
    def high(self) -> float:
        return min(1.0, self._bound(1))

    def _bound(self, sign: int) -> float:
        n = self.of
        half = _Z * math.sqrt(self.count * (n - self.count) / max(n, 1) + _Z**2 / 4)
        return (self.count + _Z**2 / 2 + sign * half) / (n + _Z**2)


@dataclass(frozen=True, slots=True)
class Recall:
    """How many cards were recalled when they came due: young ones, mature ones, all."""

    young: Share
    mature: Share

    @property
    def all(self) -> Share:
        return Share(self.young.count + self.mature.count, self.young.of + self.mature.of)


@dataclass(frozen=True, slots=True)
class Day:
    """What was done on a study day: reviews, answers and explanations, and their seconds."""

    done: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Band:
    """The answers that were given with one confidence, `said`, and how many of them were right."""

    said: float
    answers: int
    right: int

    @property
    def share(self) -> Share:
        """The share of right answers."""
        return Share(self.right, self.answers)


@dataclass(frozen=True, slots=True)
class Misled:
    """A wrong answer with a known belief: why it is wrong, how often it was given, and a demo that shows it."""

    question: str
    ask: str
    given: str
    why: str
    times: int
    demo: str | None


@dataclass(frozen=True, slots=True)
class Statistics:
    """The statistics of a learner on one day."""

    day: date
    wanted: float  # the share of cards that should be recalled when they come due
    lately: Recall
    ever: Recall
    due: int  # now, without cards that come again today
    again: int  # cards that were asked today and come again
    ahead: tuple[int, ...]  # cards that come due on each of the next AHEAD days
    days: Mapping[date, Day]
    sure: tuple[Band, ...]
    strengths: tuple[tuple[Concept, Strength], ...]  # weakest first, and last those without a verdict
    untested: int  # concepts
    misled: tuple[Misled, ...]  # most often first
    labs: tuple[LabStanding, ...] = ()  # those that were passed

    @property
    def streak(self) -> int:
        """Study days in a row up to today, or up to yesterday if today has none yet."""
        return streak(self.days, self.day)

    @property
    def longest(self) -> int:
        return max((streak(self.days, day) for day in self.days if day + timedelta(days=1) not in self.days), default=0)

    @property
    def seconds(self) -> float:
        return sum(day.seconds for day in self.days.values())


def statistics(progress: Progress, concepts: Sequence[Concept], day: date) -> Statistics:
    """The statistics of these concepts; removed and hidden items are not counted as due."""
    memories, hidden, graded = progress.memories(), progress.hidden(day), progress.grades(day)
    known = {card.key for concept in concepts for card in concept.cards} - hidden
    memories = {key: memory for key, memory in memories.items() if key in known}
    lately, ever = _recalls(progress.first_grades(), day - timedelta(days=LATELY))
    strong = strengths(progress.last_answers(), day)
    tested = [(concept, strong[concept.id]) for concept in concepts if concept.id in strong]
    return Statistics(
        day=day,
        wanted=progress.weights().retention,
        lately=lately,
        ever=ever,
        due=due_now(memories, day, graded),
        again=coming_again(memories, graded),
        ahead=tuple(due_soon(memories, day, AHEAD)),
        days={date.fromisoformat(day): Day(done, took / 1000) for day, done, took in progress.days()},
        sure=tuple(Band(*counts) for counts in progress.confidences()),
        strengths=tuple(sorted(tested, key=lambda pair: (pair[1].label is Label.UNKNOWN, pair[1].mean))),
        untested=len(concepts) - len(tested),
        misled=_misled(progress.wrong(), concepts),
        labs=tuple(lab for lab in progress.labs().values() if lab.passed),
    )


def _recalls(grades: Iterable[tuple[str, str, int]], since: date) -> tuple[Recall, Recall]:
    """Count the first grade of each day on which a card came back: since a day, and ever.

    `grades` are ordered by card, then by day.
    """
    number = cache(lambda day: date.fromisoformat(day).toordinal())
    first, forgot = since.toordinal(), int(Grade.AGAIN)
    counts = Counter[tuple[bool, bool, bool]]()  # lately, mature, recalled
    card_before, before = "", 0
    for card, day, grade in grades:
        at = number(day)
        if card == card_before:
            counts[at >= first, at - before >= _MATURE, grade > forgot] += 1
        card_before, before = card, at

    def share(lately: tuple[bool, ...], *, mature: bool) -> Share:
        good, bad = (sum(counts[late, mature, recalled] for late in lately) for recalled in (True, False))
        return Share(good, good + bad)

    def recall(*lately: bool) -> Recall:
        return Recall(share(lately, mature=False), share(lately, mature=True))

    return recall(True), recall(True, False)


def _misled(wrong: Iterable[tuple[str, str, int]], concepts: Sequence[Concept]) -> tuple[Misled, ...]:
    """Count the beliefs behind wrong answers, which are oldest first; the words are those that were shown last."""
    questions = {question.key: question for concept in concepts for question in concept.questions}
    demos = {concept.id: concept.demos[0].run for concept in concepts if concept.demos}
    times, last = Counter[tuple[str, str]](), dict[tuple[str, str], Misconception]()
    for item, given, count in wrong:
        if item in questions:
            for one in beliefs(questions[item], given):
                times[item, one.belief] += count
                last[item, one.belief] = one
    return tuple(
        Misled(key[0], last[key].ask, last[key].given, last[key].why, count, demos.get(questions[key[0]].concept))
        for key, count in sorted(times.items(), key=lambda pair: (-pair[1], pair[0]))
    )


# Whether a learner is right as often as they say they are sure.

_KEYS = {2: 0.5, 3: 0.75, 4: 0.95}  # the confidence of each key; 1 is a guess
_FEW = 10  # answers; fewer are too few to show a bias
ENOUGH = 30  # answers; fewer are too few to rule a bias out
_BIAS = 1.64  # standard deviations; chance alone reaches this in one sitting out of ten


class Bias(Enum):
    """In which direction a learner errs."""

    OVER = "overconfident"
    UNDER = "underconfident"
    NONE = "well calibrated"


@dataclass(frozen=True, slots=True)
class Calibration:
    """How confidence and right answers agree; `bias` is None while there are too few answers."""

    bands: tuple[Band, ...]
    brier: float  # the mean squared difference of confidence and result; 0 is best, always saying 50% gives 0.25
    bias: Bias | None

    @property
    def answers(self) -> int:
        return sum(band.answers for band in self.bands)

    @property
    def said(self) -> float:
        """The mean confidence."""
        return sum(band.said * band.answers for band in self.bands) / self.answers

    @property
    def right(self) -> float:
        """The share of right answers."""
        return sum(band.right for band in self.bands) / self.answers


def confidence_keys(chance: float) -> dict[int, float]:
    """The confidence that each key means, for a question with this chance of a right guess.

    That chance is rounded to quarters, so that guesses at questions of several kinds can be counted together.
    """
    return {1: round(4 * chance) / 4, **_KEYS}


def calibration(answers: Iterable[tuple[float, bool]]) -> Calibration | None:
    """Compare confidence with right answers; each answer is (confidence, whether it was right). None without answers.

    For a learner who is right exactly as often as they say, the number of right answers has the mean sum p and the
    variance sum p(1-p); only a larger difference is a bias.
    """
    given = list(answers)
    if not given:
        return None
    bands = tuple(
        Band(said, len(rights), sum(rights))
        for said in sorted({said for said, _ in given})
        for rights in [[right for each, right in given if each == said]]
    )
    brier = sum((said - right) ** 2 for said, right in given) / len(given)
    surplus = sum(said - right for said, right in given)
    spread = math.sqrt(sum(said * (1 - said) for said, _ in given))
    bias = Bias.OVER if surplus > _BIAS * spread else Bias.UNDER if -surplus > _BIAS * spread else Bias.NONE
    return Calibration(bands, brier, bias if len(given) >= (ENOUGH if bias is Bias.NONE else _FEW) else None)
