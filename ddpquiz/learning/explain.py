"""One sitting of explaining: what was written against the points of a rubric. Old state and event in, new state out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING

from ddpquiz.learning.words import Said

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from ddpquiz.curriculum.concept import Point, Prompt
    from ddpquiz.learning.words import Found


class ExplainAction(Enum):
    """What can happen besides a text and an objection."""

    HINT = auto()
    SKIP = auto()
    NEXT = auto()
    UNDO = auto()
    BACK = auto()  # the learner returns from a demo
    STOP = auto()


@dataclass(frozen=True, slots=True)
class WriteLine:
    """An explanation as it was written."""

    text: str


@dataclass(frozen=True, slots=True)
class Overrule:
    """The learner objects to the verdict on the point at `place`, from 0, or takes that back."""

    place: int


Event = ExplainAction | WriteLine | Overrule


@dataclass(frozen=True, slots=True)
class JudgedPoint:
    """A point of the rubric: what in a text made it, as written there, and whether the learner objects."""

    point: Point
    words: tuple[str, ...]
    contrary: tuple[str, ...] = ()  # written too, but denied where the point says it, or said where it denies it
    absent: tuple[str, ...] = ()  # the point's words that are nowhere in the text
    overruled: bool = False

    @property
    def matched(self) -> bool:
        """Whether anything in the text made it."""
        return bool(self.words)

    @property
    def made(self) -> bool:
        """Whether the point counts as made: the learner has the last word."""
        return self.matched != self.overruled


@dataclass(frozen=True, slots=True)
class Explanation:
    """What was written to a prompt, and its points as judged."""

    prompt: Prompt
    text: str
    points: tuple[JudgedPoint, ...]
    hinted: bool
    at: datetime
    took: timedelta

    @property
    def made(self) -> int:
        """How many points were made."""
        return sum(point.made for point in self.points)


@dataclass(frozen=True, slots=True)
class Explaining:
    """Where a sitting stands: the prompt at `place` is on screen, with its points if `judged`."""

    prompts: tuple[Prompt, ...]
    since: datetime  # when this prompt came on screen
    place: int = 0
    hinted: bool = False
    judged: bool = False
    stopped: bool = False
    done: tuple[Explanation, ...] = ()
    previous: Explaining | None = field(default=None, repr=False, compare=False)  # what undo goes back to

    @property
    def prompt(self) -> Prompt | None:
        """The prompt on screen, or None when the sitting is over."""
        return None if self.stopped or self.place >= len(self.prompts) else self.prompts[self.place]

    @property
    def explanation(self) -> Explanation | None:
        """What was written to the prompt on screen, once it was judged."""
        return self.done[-1] if self.judged else None


def judge(prompt: Prompt, text: str) -> tuple[JudgedPoint, ...]:
    """Look for each point in a text: for one of its words, or for most of what it says in one sentence.

    A point that denies nothing is made by a word that is not denied, nor comes after one that is. If the point itself
    denies that word, it must be denied in the text as well; if it denies only what it has other words for, the word
    counts either way.
    """
    said = Said(text)
    return tuple(_judged(point, said) for point in prompt.points)


def order(prompts: Sequence[Prompt], explained: Mapping[str, int]) -> tuple[Prompt, ...]:
    """Put what was explained least often first."""
    return tuple(sorted(prompts, key=lambda prompt: explained.get(prompt.key, 0)))


def begin(prompts: Sequence[Prompt], at: datetime) -> Explaining:
    """Return a sitting with the first prompt on screen."""
    return Explaining(tuple(prompts), at)


def step(state: Explaining, event: Event, at: datetime) -> Explaining:
    """Return what a sitting becomes by an event; one that means nothing now changes nothing."""
    prompt = state.prompt
    match event:
        case ExplainAction.UNDO if state.previous:
            return replace(state.previous, since=at)
        case ExplainAction.BACK:
            return replace(state, since=at)
        case _ if prompt is None:
            return state
        case ExplainAction.STOP:
            return replace(state, stopped=True)
        case ExplainAction.NEXT if state.judged:
            return replace(state, place=state.place + 1, hinted=False, judged=False, since=at)
        case Overrule(place) if state.judged and place < len(prompt.points):
            return replace(state, done=(*state.done[:-1], _overruled(state.done[-1], place)))
        case _ if state.judged:
            return state
        case ExplainAction.HINT:
            return replace(state, hinted=True)
        case ExplainAction.SKIP:
            return replace(state, place=state.place + 1, hinted=False, since=at, previous=state)
        case WriteLine(text) if text.strip():
            new = Explanation(prompt, text, judge(prompt, text), state.hinted, at, at - state.since)
            return replace(state, done=(*state.done, new), judged=True, previous=state)
    return state


def news(old: Explaining, new: Explaining) -> tuple[Explanation | None, Explanation | None]:
    """Return the explanation that a step added and the one that it took back; an objection does both."""
    if old.done == new.done:
        return None, None
    return (
        new.done[-1] if len(new.done) >= len(old.done) else None,
        old.done[-1] if len(old.done) >= len(new.done) else None,
    )


def _overruled(explanation: Explanation, place: int) -> Explanation:
    points = list(explanation.points)
    points[place] = replace(points[place], overruled=not points[place].overruled)
    return replace(explanation, points=tuple(points))


def _judged(point: Point, said: Said) -> JudgedPoint:
    say = Said(point.say)
    words: dict[str, None] = {}  # in order, each once
    contrary: dict[str, None] = {}
    absent: list[str] = []
    fitting: list[Found] = []
    against: list[Found] = []
    for word in point.words:
        found = said.find(word)
        wanted = say.signs(word) or ({True, False} if say.denies else {True})
        around = say.around(word)
        for each in found:
            if each.said in wanted and not said.aside(each.clause) & around:
                fitting.append(each)
            else:
                contrary[each.quote] = None
                against.append(each)
        if not found:
            absent.append(word)
    words |= {each.quote: None for each in fitting if not any(said.spoils(denied, each) for denied in against)}
    return JudgedPoint(point, tuple(words) or said.echoes(say), tuple(contrary), tuple(absent))
