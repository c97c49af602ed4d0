"""`ddpquiz prove`: run the proof behind an answer."""

from __future__ import annotations

import random
from typing import Annotated

import typer
from rich.console import Console

from ddpquiz.cli import completion
from ddpquiz.curriculum.concept import Card, Question
from ddpquiz.curriculum.loading import load
from ddpquiz.curriculum.packs import require_consent
from ddpquiz.curriculum.posed_question import Posed, pose
from ddpquiz.errors import UserError
from ddpquiz.ranks.launch import server
from ddpquiz.terminal.kit import screen, style
from ddpquiz.terminal.sittings import proof
from ddpquiz.terminal.sittings.proof import show


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
        raise UserError(f"{item} has no proof; only questions have one, and cards that name a question.")
    posed = pose(question, random.Random(seed))  # noqa: S311
    _ready(posed)
    if not show(posed, style.console()):
        raise typer.Exit(1)


def visit(posed: Posed, console: Console) -> bool:
    """Run the proof during a sitting, on a screen of its own if the terminal can be painted."""
    _ready(posed)
    return proof.visit(posed, console) if screen.is_interactive() else proof.show(posed, console)


def _ready(posed: Posed) -> None:
    """Start the server of ranks; UserError if the question has no proof."""
    if posed.question.proof is None:
        raise UserError(
            f"{posed.question.key} has no proof that a machine can run, but a source: {posed.question.source}."
        )
    require_consent(posed.question.concept.rpartition("/")[0], posed.question.proof.origin)
    server()
