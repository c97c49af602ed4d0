"""`ddpquiz prove`: run the proof behind an answer."""

from __future__ import annotations

import random
from typing import Annotated

import typer

from ddpquiz.cli import completion
from ddpquiz.curriculum.concept import Card, Question
from ddpquiz.curriculum.loading import load
from ddpquiz.curriculum.posed_question import pose
from ddpquiz.errors import UserError
from ddpquiz.terminal.kit import style
from ddpquiz.terminal.sittings.proof_screen import show


def prove(
    item: Annotated[str, typer.Argument(help="A question, or a card, as concept/id.", autocompletion=completion.items)],
    seed: Annotated[int | None, typer.Option(help="Use the same seed to get the same values again.")] = None,
) -> None:
    """Run the proof behind an answer on real ranks, and show what was observed."""
    known = load()
    question = known.item(item)
    if isinstance(question, Card) and question.proof:
        question = known.item(f"{question.concept}/{question.proof}")
    if not isinstance(question, Question):
        raise UserError(f"{item} has no proof; only questions, and cards that refer to a question, can have one.")
    posed = pose(question, random.Random(seed))  # noqa: S311
    if not show(posed, style.console()):
        raise typer.Exit(1)
