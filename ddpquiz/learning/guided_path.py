"""The guided path through a concept: its stages in order, and how far a learner is.

Most of it follows from the log of answers, reviews and labs, so that what was done elsewhere counts here too. The rows
of kind `stage` add what leaves no other trace: that a lesson was read, that a demo was seen, and what was skipped.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum

from ddpquiz.curriculum.catalog import Catalog, LabTitle
from ddpquiz.curriculum.concept import Card, Concept, DemoLink, Kind, Level, Question
from ddpquiz.learning.progress import STEP, Progress

_ASKED = 3  # questions of a path, besides the one that predicts the demo


class StageName(StrEnum):
    """What a path consists of, in this order; a lesson in steps has predictions, demos and questions in its steps."""

    LESSON = "lesson"
    PREDICTION = "prediction"
    DEMO = "demo"
    CARDS = "cards"
    QUESTIONS = "questions"
    LAB = "lab"


class StageState(StrEnum):
    """How far a stage is."""

    OPEN = "open"
    DONE = "done"
    SKIPPED = "skipped"


_PICKED, _TRACK = "picked", "track/"  # what a row says that picks a track, and how its item begins
SAVED = (StageState.DONE, StageState.SKIPPED)  # what a row of the log holds


@dataclass(frozen=True, slots=True)
class PathStage:
    """A stage of a path: how far it is, how many steps, cards, questions or labs it has, and how many are left."""

    stage: StageName
    state: StageState
    count: int = 0
    left: int = 0


@dataclass(frozen=True, slots=True)
class GuidedPath:
    """The path through one concept. `demo` is the run that is predicted and seen, `lab` the lab to build."""

    concept: Concept
    stages: tuple[PathStage, ...]
    demo: DemoLink | None = None
    lab: LabTitle | None = None
    step: int = 0  # the first open step of the lesson, counted from 0; 0 if none is open
    skipped: int = 0  # steps of the lesson

    @property
    def current(self) -> PathStage | None:
        """The first stage that is neither done nor skipped."""
        return next((each for each in self.stages if each.state is StageState.OPEN), None)

    @property
    def begun(self) -> bool:
        return self.step > 0 or any(each.state is not StageState.OPEN for each in self.stages)

    def number(self, stage: StageName) -> int:
        """The place of a stage in the path, from 1."""
        return [each.stage for each in self.stages].index(stage) + 1

    def place(self, stage: StageName) -> str:
        """Where a stage is, such as `2 of 6: prediction`."""
        return f"{self.number(stage)} of {len(self.stages)}: {stage}"

    @property
    def position(self) -> str:
        """Where the learner is: the place of the current stage, and the step of a lesson; "" at the end."""
        now = self.current
        if now is None:
            return ""
        step = f", step {self.step + 1} of {now.count}" if now.stage is StageName.LESSON and now.count else ""
        return f"{self.place(now.stage)}{step}"


@dataclass(frozen=True, slots=True)
class PathHistory:
    """What a learner has done; items are known by concept/id."""

    stages: dict[str, StageState] = field(default_factory=dict)  # by concept/stage
    answered: frozenset[str] = frozenset()  # questions
    recalled: frozenset[str] = frozenset()  # cards that were reviewed, and those that are hidden
    passed: frozenset[str] = frozenset()  # names of labs
    last: str = ""  # the concept whose path was followed last
    tracks: tuple[str, ...] = ()  # that the learner picked, the last one first

    def has_read(self, concept: str) -> bool:
        """Whether the lesson of a concept is done or was skipped."""
        return f"{concept}/{StageName.LESSON}" in self.stages


def load_history(progress: Progress, today: date) -> PathHistory:
    """Read what the learner has done so far."""
    every = progress.entries("stage")
    picks = [row for row in every if row.given == _PICKED]
    rows = [row for row in every if row.given != _PICKED]
    walked = [row.item.rpartition("/") for row in rows]  # a demo may have been seen elsewhere
    reviewed = {key for key, memory in progress.memories().items() if memory.first is not None}
    return PathHistory(
        stages={row.item: StageState(row.given) for row in rows if row.given in SAVED},
        answered=frozenset(row.item for row in progress.entries("answer")),
        recalled=progress.hidden(today) | reviewed,
        passed=frozenset(name for name, lab in progress.labs().items() if lab.passed),
        last=next((concept for concept, _, stage in reversed(walked) if stage != StageName.DEMO), ""),
        tracks=tuple(dict.fromkeys(row.item.removeprefix(_TRACK) for row in reversed(picks))),
    )


def pick_track(progress: Progress, track: str, at: datetime) -> None:
    """Save that the learner wants to learn a track after the core route."""
    progress.stage(f"{_TRACK}{track}", _PICKED, at)


def route(catalog: Catalog, history: PathHistory) -> tuple[Concept, ...]:
    """All concepts as a learner goes through them: the core route, the tracks that were picked, the others."""
    core = catalog.concepts[: len(catalog.core)]
    picked = (concept for track in history.tracks for concept in catalog.concepts if concept.track == track)
    return tuple({concept.id: concept for concept in (*core, *picked, *catalog.concepts)}.values())


def step_item(concept: Concept, step: int) -> str:
    """The name in the log of a step of a lesson, counted from 0."""
    return f"{concept.id}/{STEP}{step + 1}"


def further_pages(concept: Concept) -> str:
    """The name in the log of the further pages of a lesson, once they were opened."""
    return f"{concept.id}/more"


def further_cards(concept: Concept) -> tuple[Card, ...]:
    """The cards that only the further pages of a lesson teach."""
    return tuple(card for card in concept.cards if concept.more and card.level == Level.HARD)


def further_questions(concept: Concept) -> tuple[Question, ...]:
    """The questions that may need the further pages of a lesson."""
    return tuple(each for each in concept.questions if concept.more and each.level == Level.HARD)


def missed_in_steps(concept: Concept, progress: Progress) -> list[Question]:
    """The questions of steps that are done whose last answer was wrong, or was to ask for the solution."""
    done = {row.item for row in progress.entries("stage") if row.given == StageState.DONE}
    asked = [concept.asked_in(step) for number, step in enumerate(concept.steps) if step_item(concept, number) in done]
    last = {row.item: row for row in progress.entries("answer")}
    return [each for each in asked if isinstance(each, Question) and each.key in last and not last[each.key].credit]


def has_seen(concept: Concept, demo: DemoLink, history: PathHistory) -> bool:
    """Whether the learner has predicted and seen the demo of a step already, here or elsewhere."""
    link, predicts = _demo(concept)
    seen = history.stages.get(f"{concept.id}/{StageName.DEMO}") is StageState.DONE
    return bool(seen and link and _is_same(link, demo) and predicts and predicts.key in history.answered)


def _is_same(link: DemoLink, other: DemoLink) -> bool:
    return (link.run, link.args) == (other.run, other.args)


def save_seen(progress: Progress, concept: Concept, link: DemoLink, at: datetime) -> None:
    """Save that a demo was seen, if it is the one of the concept's path and the log does not say so already."""
    item = f"{concept.id}/{StageName.DEMO}"
    said = {row.item: row.given for row in progress.entries("stage")}
    mine = _demo(concept)[0]
    if mine and _is_same(link, mine) and said.get(item) != StageState.DONE:
        progress.stage(item, StageState.DONE, at)


def has_begun(progress: Progress, concept: Concept) -> bool:
    """Whether the learner has begun to learn a concept; predictions and demos alone do not begin it."""
    return concept.id in begun_concepts(progress)


def begun_concepts(progress: Progress) -> set[str]:
    """The concepts that the learner has begun to learn, as `has_begun` judges it."""
    rows = progress.entries("review", "explanation", "lab", "stage")
    named = (row.item.rpartition("/") for row in rows)
    return {concept for concept, _, stage in named if stage != StageName.DEMO}


def has_learned(progress: Progress, concept: str) -> bool:
    """Whether the learner has finished the lesson of a concept, or knows it from study and tests without the lesson."""
    stages = {row.item for row in progress.entries("stage") if row.item.startswith(f"{concept}/")}
    return f"{concept}/{StageName.LESSON}" in stages or (not stages and concept in progress.concepts())


def guided_path(concept: Concept, labs: Sequence[LabTitle], history: PathHistory) -> GuidedPath:
    """The path through a concept, without the stages that it has nothing for."""
    link, predicts = _demo(concept)
    mine = sorted((lab for lab in labs if lab.concept == concept.id), key=lambda lab: lab.minutes)
    lab = next((lab for lab in mine if lab.id not in history.passed), mine[-1] if mine else None)
    others = [each.key for each in concept.questions if each is not predicts]
    cards = sum(card.key not in history.recalled for card in concept.taught_cards)
    asked = min(_ASKED, len(others))
    questions = max(0, asked - sum(key in history.answered for key in others))
    steps = range(len(concept.steps)) if concept.in_steps else ()
    states = [history.stages.get(step_item(concept, step), StageState.OPEN) for step in steps]
    open_steps = [step for step in steps if states[step] is StageState.OPEN]
    outside = not concept.in_steps  # the prediction, the demo and the questions are stages of their own
    done = {  # by the log, if the path has this stage
        StageName.LESSON: bool(steps) and not open_steps,
        **({StageName.PREDICTION: predicts.key in history.answered} if predicts and outside else {}),
        **({StageName.DEMO: False} if link and outside else {}),
        **({StageName.CARDS: not cards} if concept.cards else {}),
        **({StageName.QUESTIONS: not questions} if others and outside else {}),
        **({StageName.LAB: any(each.id in history.passed for each in mine)} if lab else {}),
    }
    counts = {
        StageName.LESSON: (len(steps), len(open_steps)),
        StageName.CARDS: (len(concept.taught_cards), cards),
        StageName.QUESTIONS: (asked, questions),
        StageName.LAB: (len(mine), sum(each.id not in history.passed for each in mine)),
    }

    def state(stage: StageName) -> StageState:
        said = history.stages.get(f"{concept.id}/{stage}", StageState.OPEN)
        return StageState.DONE if done[stage] else said

    every = tuple(PathStage(stage, state(stage), *counts.get(stage, ())) for stage in done)
    return GuidedPath(concept, every, link, lab, next(iter(open_steps), 0), states.count(StageState.SKIPPED))


def next_path(concepts: Sequence[Concept], labs: Sequence[LabTitle], history: PathHistory) -> GuidedPath | None:
    """The path to go on with; concepts are in the order of the route.

    That is the one followed last, else the first whose lesson was not read, else the first that is not finished; None
    if all are. Once a lesson in steps is done, the next one is due: `study` deals the cards of the one before.
    """
    unread = [concept for concept in concepts if not history.has_read(concept.id)]
    goes_on = [concept for concept in concepts if concept in unread or not concept.in_steps]
    last = [concept for concept in goes_on if concept.id == history.last]
    paths = (guided_path(concept, labs, history) for concept in (*last, *unread, *concepts))
    return next((path for path in paths if path.current), None)


def _demo(concept: Concept) -> tuple[DemoLink | None, Question | None]:
    """The first demo of a concept that asks for a prediction, and the question; else its first demo."""
    questions = {each.id: each for each in concept.questions}
    for link in concept.demos:
        question = questions.get(link.predict)
        if question and question.kind is not Kind.NUMBER:  # its values would have to be those of the run
            return link, question
    return (concept.demos[0] if concept.demos else None), None
