"""Choose the question that predicts a run, ask it before the run, and save the answer after it."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from datetime import timedelta

from rich.console import Console

from ddpquiz.cli.clock import now
from ddpquiz.cli.progress_file import open_progress
from ddpquiz.curriculum import loading
from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import DemoLink, DemoProof, Kind, Question
from ddpquiz.curriculum.posed_question import Posed, pose
from ddpquiz.events.run_state import RunState
from ddpquiz.learning.answers import save_answer
from ddpquiz.learning.guided_path import save_seen
from ddpquiz.learning.quiz import Answer
from ddpquiz.terminal.runs.frame import Hint
from ddpquiz.terminal.sittings import prediction
from ddpquiz.terminal.sittings.prediction import Prediction, outcome, verdict_line


@dataclass(frozen=True)
class Before:
    """What comes before a prediction: the question that is already on screen, and where a guided path stands."""

    answered: str = ""  # is not asked
    concept: str = ""  # whose own question is asked first
    place: str = ""  # see SessionContext


NOTHING_BEFORE = Before()


@dataclass(frozen=True)
class PredictedRun:
    """A run and the question that was asked before it."""

    catalog: Catalog
    link: DemoLink
    posed: Posed
    prediction: Prediction | None  # None: the learner declined
    time: timedelta  # that the learner needed for the answer
    in_path: bool = False  # a guided path runs the demo

    @property
    def hint(self) -> Hint:
        """What to look at during the run, what was predicted, and whether that was right."""
        if self.prediction is None:
            return Hint(self.link.look)
        said = f'You predicted "{self.prediction.words}".'
        why = " ".join(self.prediction.verdict.whys)
        return Hint(self.link.look, said, verdict_line(self.prediction, self.posed), why)


def ask(
    name: str, args: tuple[str, ...], ranks: int | None, console: Console, before: Before = NOTHING_BEFORE
) -> PredictedRun | None:
    """Ask for a prediction of a run; return None if no concept has a question about exactly this run.

    Raises NoRun if the learner declines the run.
    """
    known = loading.load()
    found = _question(known, name, args, ranks, before.concept)
    if found is None or found[1].key == before.answered:
        return None
    link, question = found
    posed = pose(question, random.Random())  # noqa: S311
    began = time.monotonic()
    predicted = prediction.ask(posed, name, console, before.place)
    took = timedelta(seconds=time.monotonic() - began)
    return PredictedRun(known, link, posed, predicted, took, in_path=bool(before.place))


def save(predicted: PredictedRun, run: RunState) -> str | None:
    """Save the answer and that the demo was seen, if the run ended well; return the card that a wrong one made due."""
    if predicted.prediction is None or run.end is None or not run.end.ok:
        return None
    made = predicted.prediction
    concept = predicted.catalog.concept(predicted.posed.question.concept)
    answer = Answer(predicted.posed, made.words, made.verdict, now(), predicted.time)
    with open_progress() as progress:
        if not predicted.in_path:  # which saves that itself
            save_seen(progress, concept, predicted.link, now())
        return save_answer(progress, answer, concept.cards).made_due_card


def settle(predicted: PredictedRun, run: RunState, console: Console) -> None:
    """Save what the run has shown, and print why a wrong prediction is wrong."""
    if predicted.prediction:
        card = save(predicted, run)
        console.print(outcome(predicted.prediction, predicted.posed, card, ok=bool(run.end and run.end.ok)))


def note(predicted: PredictedRun, run: RunState) -> str:
    """Save what the run has shown; return in a few sentences whether the prediction held, and what a wrong one does."""
    card, made = save(predicted, run), predicted.prediction
    if made is None or not (run.end and run.end.ok):
        return ""
    due = [f"The card {card} is due."] if card else []
    return " ".join((verdict_line(made, predicted.posed), *made.verdict.whys, *due))


def _question(
    known: Catalog, name: str, args: tuple[str, ...], ranks: int | None, first: str = ""
) -> tuple[DemoLink, Question] | None:
    """Return the question that predicts exactly this run, and its link.

    A question of the concept `first` is preferred, then one that is proven by the demo itself.
    """
    found = [
        (link, question)
        for concept in known.concepts
        for link in concept.demos
        if (link.run, link.args) == (name, args) and ranks in (None, link.ranks)
        for question in concept.questions
        if question.id == link.predict and question.kind is not Kind.NUMBER  # whose values would have to be the run's
    ]

    def rank(pair: tuple[DemoLink, Question]) -> tuple[bool, bool]:
        return pair[1].concept != first, not isinstance(pair[1].proof, DemoProof)

    return min(found, key=rank, default=None)
