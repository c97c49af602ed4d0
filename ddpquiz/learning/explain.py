"""One sitting of explaining: the learner writes, then ticks the points of a rubric that the text makes.

Nothing is ticked beforehand, except by a program that the learner named. Old state and event in, new state out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum, auto

from ddpquiz.curriculum.concept import Prompt
from ddpquiz.learning.log_rows import UNCHANGED, Change


class ExplainAction(Enum):
    """What can happen besides a text and a toggled point."""

    HINT = auto()
    SKIP = auto()
    NEXT = auto()
    UNDO = auto()
    BACK = auto()  # the learner returns from a demo
    STOP = auto()


@dataclass(frozen=True, slots=True)
class Opinion:
    """What another program says about a text: which points it makes, in order, and a remark."""

    made: tuple[bool, ...]
    remark: str = ""


@dataclass(frozen=True, slots=True)
class WriteLine:
    """An explanation as it was written, and what the learner's program says about it."""

    text: str
    opinion: Opinion | None = None


@dataclass(frozen=True, slots=True)
class Toggle:
    """The learner ticks the point at `place`, from 0, or removes its tick."""

    place: int


Event = ExplainAction | WriteLine | Toggle


@dataclass(frozen=True, slots=True)
class CheckedPoint:
    """A point of the rubric: whether a program ticked it, and whether the learner changed that."""

    say: str
    by_program: bool = False
    changed: bool = False

    @property
    def made(self) -> bool:
        """True if the point counts as made: the learner decides."""
        return self.by_program != self.changed


@dataclass(frozen=True, slots=True)
class Explanation:
    """What was written to a prompt, with its points."""

    prompt: Prompt
    text: str
    points: tuple[CheckedPoint, ...]
    hinted: bool
    at: datetime
    took: timedelta
    opinion: Opinion | None = None

    @property
    def made(self) -> int:
        return sum(point.made for point in self.points)


@dataclass(frozen=True, slots=True)
class Explaining:
    """Where a sitting stands: the prompt at `place` is on screen, with its points if `checking`."""

    prompts: tuple[Prompt, ...]
    since: datetime  # when this prompt came on screen
    place: int = 0
    hints: frozenset[int] = frozenset()  # the places of the prompts whose hint was shown
    checking: bool = False
    stopped: bool = False
    done: tuple[Explanation, ...] = ()
    last: Explanation | None = None  # what undo takes back
    previous: Explaining | None = field(default=None, repr=False, compare=False)  # what undo goes back to

    @property
    def prompt(self) -> Prompt | None:
        """The prompt on screen, or None when the sitting is over."""
        return None if self.stopped or self.place >= len(self.prompts) else self.prompts[self.place]

    @property
    def hinted(self) -> bool:
        """True if the hint of the prompt on screen was shown, also before it was skipped and came back."""
        return self.place in self.hints

    @property
    def explanation(self) -> Explanation | None:
        """What was written to the prompt on screen, while its points are checked."""
        return self.done[-1] if self.checking else None


def order(prompts: Sequence[Prompt], explained: Mapping[str, int]) -> tuple[Prompt, ...]:
    """The prompts, those that were explained least often first."""
    return tuple(sorted(prompts, key=lambda prompt: explained.get(prompt.key, 0)))


def begin(prompts: Sequence[Prompt], at: datetime) -> Explaining:
    """A sitting with the first prompt on screen."""
    return Explaining(tuple(prompts), at)


def step(state: Explaining, event: Event, at: datetime) -> tuple[Explaining, Change[Explanation]]:
    """The sitting after an event, and what is to be saved; an event that means nothing now changes nothing."""
    prompt = state.prompt
    match event:
        case ExplainAction.UNDO if state.previous:
            return replace(state.previous, since=at, hints=state.hints), Change(removed=state.last)
        case ExplainAction.BACK:
            return replace(state, since=at), UNCHANGED
        case _ if prompt is None:
            return state, UNCHANGED
        case ExplainAction.STOP:
            return replace(state, stopped=True), UNCHANGED
        case ExplainAction.NEXT if state.checking:
            return replace(state, place=state.place + 1, checking=False, since=at), UNCHANGED
        case Toggle(place) if state.checking and place < len(prompt.points):
            before, after = state.done[-1], _toggled(state.done[-1], place)
            return replace(state, done=(*state.done[:-1], after), last=after), Change(after, before)
        case _ if not state.checking:
            return _step_of_prompt(state, prompt, event, at)
    return state, UNCHANGED


def _step_of_prompt(
    state: Explaining, prompt: Prompt, event: Event, at: datetime
) -> tuple[Explaining, Change[Explanation]]:
    """The sitting after an event while a prompt waits for its explanation."""
    match event:
        case ExplainAction.HINT:
            return replace(state, hints=state.hints | {state.place}), UNCHANGED
        case ExplainAction.SKIP:
            return replace(state, place=state.place + 1, since=at, last=None, previous=state), UNCHANGED
        case WriteLine(text, opinion) if text.strip():
            new = explanation(state, prompt, text, opinion, at)
            return replace(state, done=(*state.done, new), checking=True, last=new, previous=state), Change(added=new)
    return state, UNCHANGED


def explanation(state: Explaining, prompt: Prompt, text: str, opinion: Opinion | None, at: datetime) -> Explanation:
    """A text as an explanation of a prompt; its points are ticked as the opinion says, or not at all."""
    ticks = opinion.made if opinion else (False,) * len(prompt.points)
    points = tuple(CheckedPoint(say, tick) for say, tick in zip(prompt.points, ticks, strict=True))
    return Explanation(prompt, text, points, state.hinted, at, at - state.since, opinion)


def _toggled(explanation: Explanation, place: int) -> Explanation:
    points = list(explanation.points)
    points[place] = replace(points[place], changed=not points[place].changed)
    return replace(explanation, points=tuple(points))
