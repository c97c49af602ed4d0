"""`ddpquiz learn`: follow the guided path through a concept, or read its lesson."""

from __future__ import annotations

from typing import Annotated

import typer

from ddpquiz.cli import completion, learn_path, lesson_page
from ddpquiz.curriculum import loading
from ddpquiz.terminal.kit import pager, style


def learn(
    concept: Annotated[
        str | None,
        typer.Argument(help="What to learn. Without it, go on where you left off.", autocompletion=completion.concepts),
    ] = None,
    lesson: Annotated[bool, typer.Option("--lesson", help="Only show the lesson.")] = False,
) -> None:
    """Learn a concept step by step: lesson, prediction, demo, cards, questions, lab.

    You can leave at any point; the next time goes on there. In a pipe, print the lesson and the stages.
    """
    if lesson and concept is None:
        raise typer.BadParameter("name a concept; `ddpquiz list` lists them.", param_hint="--lesson")
    known = loading.load()
    named = known.concept(concept) if concept is not None else None
    if lesson and named:
        pager.show(style.console(), lesson_page.page(known, named))
    else:
        learn_path.follow(known, named)
