"""Which question a demo is predicted by, asking it, and what becomes of the answer."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from ddpquiz.analysis.run_state import RunState
    from ddpquiz.curriculum.catalog import Catalog
    from ddpquiz.curriculum.concept import DemoLink, Question
    from ddpquiz.curriculum.posed import Posed
    from ddpquiz.terminal.sittings.prediction import Made


@dataclass(frozen=True)
class PredictedRun:
    """A question that was asked before a run: what it was about, and how the answer would be judged."""

    catalog: Catalog
    link: DemoLink
    posed: Posed
    made: Made | None  # None: the learner made none
    took: timedelta

    @property
    def look(self) -> str:
        """What to look at while it runs, with what was predicted in sight."""
        return f"{self.link.look}; you predicted {self.made.words}" if self.made else self.link.look

    @property
    def found(self) -> str:
        """What stands there once it has run: whether the prediction held."""
        from ddpquiz.terminal.sittings.prediction import compared

        return f"{self.link.look}; {compared(self.made, self.posed)}" if self.made else ""


def ask(name: str, args: tuple[str, ...], ranks: int | None, console: Console) -> PredictedRun | None:
    """Ask for a prediction of the run that is wanted, if a concept has a question about just that run.

    A learner who wants no run after all ends the command here, with status 0.
    """
    from ddpquiz.curriculum import loading
    from ddpquiz.curriculum.posed import pose
    from ddpquiz.terminal.sittings import prediction

    known = loading.load()
    found = _question(known, name, args, ranks)
    if found is None:
        return None
    link, question = found
    posed = pose(question, random.Random())  # noqa: S311
    began = time.monotonic()
    try:
        made = prediction.ask(posed, name, console)
    except prediction.Left:
        raise typer.Exit from None
    return PredictedRun(known, link, posed, made, timedelta(seconds=time.monotonic() - began))


def settle(predicted: PredictedRun, seen: RunState, console: Console) -> None:
    """Say whether a prediction held, and keep it; a wrong one makes a card due."""
    from ddpquiz.terminal.sittings import prediction

    if predicted.made is None:
        return
    shown = seen.end is not None and seen.end.ok
    called = _keep(predicted, predicted.made) if shown else None
    console.print()
    console.print(prediction.outcome(predicted.made, predicted.posed, called, shown=shown))


def _question(known: Catalog, name: str, args: tuple[str, ...], ranks: int | None) -> tuple[DemoLink, Question] | None:
    """Return the question that predicts just this run, and the link that says so; the demo's own proof comes first."""
    from ddpquiz.curriculum.concept import DemoProof, Kind

    found = [
        (link, question)
        for concept in known.concepts
        for link in concept.demos
        if (link.run, link.args) == (name, args) and ranks in (None, link.ranks)
        for question in concept.questions
        if question.id == link.predict and question.kind is not Kind.NUMBER  # whose values would have to be the run's
    ]
    return min(found, key=lambda pair: not isinstance(pair[1].proof, DemoProof), default=None)


def _keep(predicted: PredictedRun, made: Made) -> str | None:
    """Keep a prediction as the answer that it is; return the card that it made due."""
    from ddpquiz.cli.clock import now
    from ddpquiz.learning.answers import save_answer
    from ddpquiz.learning.progress import Progress
    from ddpquiz.learning.quiz import Answer
    from ddpquiz.paths import data_dir

    cards = predicted.catalog.concept(predicted.posed.question.concept).cards
    answer = Answer(predicted.posed, made.words, made.verdict, hints=0, solved=False, at=now(), took=predicted.took)
    with Progress(data_dir()) as progress:
        return save_answer(progress, answer, cards).called
